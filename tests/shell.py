"""The command line as a user starts it."""

from __future__ import annotations

import sys
from pathlib import Path

VOXCLI = str(Path(sys.executable).with_name("voxcli"))
