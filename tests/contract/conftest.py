from __future__ import annotations

import pytest
import torch
from subjects import FAMILIES, WRITERS, Subject


@pytest.fixture(scope="session", params=FAMILIES)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    name = request.param
    folder = WRITERS[name](tmp_path_factory.mktemp("families") / name)
    family = FAMILIES[name]
    model = family.load(folder, torch.device("cpu"), torch.float32, is_native=False)
    return Subject(family, folder, model)
