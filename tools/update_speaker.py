"""Make the speaker encoder's weights from the package that publishes them.

    pip download --no-deps Resemblyzer==0.1.4
    python tools/update_speaker.py Resemblyzer-0.1.4-py3-none-any.whl

The script keeps the weights of the forward pass, in half precision, which changes cosines by less
than 0.0002. It imports nothing of the package. Expected: one line with the file's size and SHA-256.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save

ASSET = Path(__file__).resolve().parents[1] / "voxcli" / "assets" / "speaker.safetensors"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path, help="the package as it was downloaded")
    wheel = parser.parse_args().wheel
    with zipfile.ZipFile(wheel) as archive:
        checkpoint = archive.read("resemblyzer/pretrained.pt")
    weights = torch.load(io.BytesIO(checkpoint), map_location="cpu", weights_only=True)
    kept = {
        name: value.half().contiguous()
        for name, value in weights["model_state"].items()
        if name.startswith(("lstm.", "linear."))
    }
    data = save(kept, {"source": f"{wheel.name}, resemblyzer/pretrained.pt"})
    ASSET.write_bytes(data)
    print(f"{ASSET}: {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
