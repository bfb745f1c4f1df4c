"""`voxcli` with one more family: python with_chimes.py WORDS..."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from otherfamily import ChimesFamily

from voxcli import models
from voxcli.__main__ import main

if __name__ == "__main__":
    models.FAMILIES.append(ChimesFamily())
    sys.exit(main())
