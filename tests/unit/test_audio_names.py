"""Names made from texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.audio.names import MAX_BYTES, MAX_CHARS, free_name, slug


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hello, world!", "hello-world"),
        ("  ../../etc/passwd  ", "etc-passwd"),
        ("你好，世界。", "你好-世界"),
        ("Grüße aus Köln", "grüße-aus-köln"),
        ("-rf --help", "rf-help"),
        (".hidden", "hidden"),
        ("NUL", "speech-nul"),
        ("com1", "speech-com1"),
        ("!?…", "speech"),
        ("", "speech"),
        ("a\u202eb\x00c", "a-b-c"),
        ("word " * 50, "-".join(["word"] * 12)),
        ("x" * 200, "x" * MAX_CHARS),
    ],
)
def test_name_is_the_first_words(text: str, name: str) -> None:
    assert slug(text) == name


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_any_text_gives_a_safe_name(text: str) -> None:
    name = slug(text)
    assert 1 <= len(name) <= MAX_CHARS + len("speech-")
    assert len(name.encode()) <= MAX_BYTES
    assert not set(name) & set('/\\:*?"<>|. \0\n')
    assert name[0] != "-"


def test_taken_names_are_counted_up(tmp_path: Path) -> None:
    for expected in ("hi.wav", "hi-2.wav", "hi-3.wav"):
        path = free_name("Hi!", tmp_path, "wav")
        assert path == tmp_path / expected
        path.touch()
    (tmp_path / "hi.mp3").symlink_to("nowhere")
    assert free_name("Hi!", tmp_path, ".mp3").name == "hi-2.mp3"
