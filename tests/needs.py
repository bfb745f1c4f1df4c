"""What some tests need of the machine: without it they are skipped, and fail where CI is set.

`.ci/run` installs all of it, and sets CI.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

PATIENCE_S = 240  # for what takes seconds: only a hang takes as long, however busy the machine is
IS_CI = os.environ.get("CI") == "true"


def unavailable(reason: str) -> NoReturn:
    """Skip the test; fail in continuous integration."""
    if IS_CI:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def need(is_there: bool, reason: str) -> None:
    """Go on only where it is there."""
    if not is_there:
        unavailable(reason)
