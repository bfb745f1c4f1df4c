"""Models by name: the table of known ones, and finding, checking and downloading their files.

Nothing here loads weights or imports torch; only `download` opens a connection.
"""

from voxcli.hub.files import (
    ModelFiles,
    ModelFolder,
    encoder_checksum,
    locate_model,
    model_checksum,
    pull_model,
    resolve_model,
    verify_model,
)
from voxcli.hub.hashes import FileCheck, file_sha256, joint_checksum, verify_file

__all__ = [
    "FileCheck",
    "ModelFiles",
    "ModelFolder",
    "encoder_checksum",
    "file_sha256",
    "joint_checksum",
    "locate_model",
    "model_checksum",
    "pull_model",
    "resolve_model",
    "verify_file",
    "verify_model",
]
