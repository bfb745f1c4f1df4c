"""Models by name: the table of known ones, and finding, checking and downloading their files.

Nothing here loads weights or imports torch; only `download` opens a connection.
"""

from voxcli.hub.files import (
    FileCheck,
    ModelFiles,
    ModelFolder,
    encoder_checksum,
    file_sha256,
    joint_checksum,
    locate_model,
    model_checksum,
    pull_model,
    resolve_model,
    verify_file,
    verify_model,
)

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
