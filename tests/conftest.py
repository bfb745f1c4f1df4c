"""Puts this folder on the import path: `checkpoints` and other helpers are shared by all tests."""

import os

os.environ["VOXCLI_SERVER"] = "off"  # a developer's running server speaks in no test but its own
