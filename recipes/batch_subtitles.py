"""Speak each cue of a subtitle file into a file, and show how each fits its time slot.

    python recipes/batch_subtitles.py [FILE.srt]

voxcli does not speak tags and sound notes. The file name contains the speaker's name. Expected for
`samples/dubbing.srt`: five files such as `0001_MIRA.flac`, cue 4 skipped as a sound note, and a
line for each cue with the seconds of speech and of its slot.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    example = ROOT / "samples" / "dubbing.srt"
    parser.add_argument("cues", type=Path, nargs="?", default=example, help="SRT or VTT")
    cues = parser.parse_args().cues
    (ROOT / "out").mkdir(exist_ok=True)
    out = Path(tempfile.mkdtemp(prefix="cues-", dir=ROOT / "out"))
    command = [sys.executable, "-m", "voxcli", "batch", str(cues), "-o", str(out), "--seed", "1"]
    names = ["--name", "{index:04d}_{speaker}", "--format", "flac"]
    subprocess.run([*command, *names, "--quiet"], check=True, stdout=subprocess.DEVNULL)

    for row in json.loads((out / "report.json").read_text("utf-8"))["rows"]:
        if row["status"] != "ok":
            print(f"cue {row['number']}: {row['status']}, {row['reason']}")
            continue
        slot_s = row["end"] - row["start"]
        word = "fits" if row["audio_s"] <= slot_s else f"{row['audio_s'] - slot_s:.1f} s over"
        print(f"{row['output']}: {row['audio_s']:.1f} s of speech in {slot_s:.1f} s, {word}")
    print(out)


if __name__ == "__main__":
    main()
