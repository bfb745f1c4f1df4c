"""The program with a second family beside its own, for its parameters alone.

python tests/cli/other_family.py speak "Hello." --temperature 0.5
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxcli.models import FAMILIES
from voxcli.models.base import GraphKey, ModelFacts, ModelFamily, SpeechModel
from voxcli.parameters import parameter


@dataclass(frozen=True)
class OtherParameters:
    """One that is new, one that the bundled voice has with a smaller range, and a switch."""

    temperature: float = parameter(
        0.9, "How freely a code is drawn", minimum=0.1, maximum=2.0, aliases=("heat",)
    )
    steps: int = parameter(4, "Steps of another kind", minimum=1, maximum=200)
    sampled: bool = parameter(True, "Draw codes", note="off takes the likeliest")


class OtherFamily(ModelFamily):
    """No checkpoint is of it."""

    name = "other"
    parameters = OtherParameters
    parts: Mapping[str, tuple[str, ...]] = {}
    encoder_parts = ()

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return False

    def facts(self, folder: Path, config: Mapping[str, Any]) -> ModelFacts:
        raise NotImplementedError

    def can_say(self, folder: Path) -> Callable[[str], bool]:
        raise NotImplementedError

    def graph_key(self, parameters: OtherParameters) -> GraphKey:
        raise NotImplementedError

    def load(self, *arguments: Any, **options: Any) -> SpeechModel:
        raise NotImplementedError

    load_shapes = load_random = load


if __name__ == "__main__":
    FAMILIES.append(OtherFamily())
    from voxcli.cli import main

    sys.exit(main())
