"""Make the bundled voices again, from recordings in `samples/voices`.

    python tools/update_voices.py

A profile is encoded for the bundled model. Run this script when that model is replaced. The script
slows down some recordings, which lowers pitch and formants, because the model speaks men higher
than their recordings. Expected: one line for each voice. Then `voxcli voices list` shows them all.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path

from voxcli import EngineConfig, open_engine
from voxcli.audio.read import Audio, read_audio
from voxcli.audio.reference import prepare_reference
from voxcli.audio.resample import resample
from voxcli.engine.base import uses_of
from voxcli.voices import SUFFIX, Voice, voice_bytes
from voxcli.voices.store import bundled_folder

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "voices"
CONSENT = "synthetic, no person's voice; Apache-2.0, see NOTICE"
CREATED = "2026-11-30T00:00:00+00:00"


@dataclass(frozen=True)
class Source:
    """Where a voice comes from.

    Attributes:
        recording: name of a file of `samples/voices`.
        pitch: times; below 1 the recording is slowed down by it.
    """

    name: str
    recording: str
    pitch: float
    description: str


SOURCES = (
    Source("emma", "emma", 1.0, "a woman, calm"),
    Source("mia", "mia", 1.0, "a woman, bright"),
    Source("sarah", "sarah", 1.0, "a woman, warm"),
    Source("george", "george", 1.0, "a man, light"),
    Source("hugo", "hugo", 1.0, "a man, firm"),
    Source("michael", "michael", 1.0, "a man, deep"),
)


def prepared(source: Source) -> Voice:
    """The recording as a voice that no model has heard yet."""
    audio = read_audio(SAMPLES / f"{source.recording}.flac")
    rate = audio.sample_rate
    samples = resample(audio.samples, round(rate * source.pitch), rate)
    recording, report = prepare_reference(Audio(samples, rate, source.name, audio.format, 1))
    facts = {**asdict(report), "description": source.description}
    return Voice(source.name, recording, created=CREATED, consent=CONSENT, facts=facts)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    bundled_folder().mkdir(exist_ok=True)
    with open_engine("native", EngineConfig("mini"), is_speaking=False) as engine:
        for source in SOURCES:
            voice = prepared(source)
            voice = voice.encoded(engine.encode(voice.recording, uses_of(voice.recording)))
            path = bundled_folder() / f"{source.name}{SUFFIX}"
            path.write_bytes(voice_bytes(voice))
            print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
