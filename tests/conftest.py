"""Puts this folder on the import path: `checkpoints` and other helpers are shared by all tests."""

import os
import tempfile

os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="voxcli")  # a socket's path must be short
os.environ["VOXCLI_ENGINE"] = "native"  # a developer's running server speaks in no test but its own
