"""From what a user wrote to what a voice should say: decode, normalise, detect, segment, prepare.

Knows no model, no audio, no torch. `prepare` is the door that synthesis uses; the rest is public
for `--show-text`, tests and other front ends. Names load on first use: importing this package
compiles no pattern.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voxcli.text.changes import Change as Change
    from voxcli.text.changes import Normalised as Normalised
    from voxcli.text.decode import decode_text as decode_text
    from voxcli.text.language import detect_language as detect_language
    from voxcli.text.language import language_name as language_name
    from voxcli.text.normaliser import normalise as normalise
    from voxcli.text.prepared import PreparedText as PreparedText
    from voxcli.text.prepared import Segment as Segment
    from voxcli.text.prepared import Unspeakable as Unspeakable
    from voxcli.text.preparer import check_language as check_language
    from voxcli.text.preparer import is_plain as is_plain
    from voxcli.text.preparer import prepare as prepare
    from voxcli.text.segmenter import segment as segment

_EXPORTS = {
    "Change": "changes",
    "Normalised": "changes",
    "PreparedText": "prepared",
    "Segment": "prepared",
    "Unspeakable": "prepared",
    "check_language": "preparer",
    "decode_text": "decode",
    "detect_language": "language",
    "language_name": "language",
    "normalise": "normaliser",
    "is_plain": "preparer",
    "prepare": "preparer",
    "segment": "segmenter",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'voxcli.text' has no attribute '{name}'")
    # NOTE: no submodule may be called like a public name, or importing it would shadow the name.
    found = globals()[name] = getattr(import_module(f"voxcli.text.{_EXPORTS[name]}"), name)
    return found
