"""Puts this folder on the import path: `checkpoints` and other helpers are shared by all tests."""
