"""Clients that leave in the middle of an encoding: a codec freed too early ends the process.

python tests/server/leaving.py mp3 whole
"""

from __future__ import annotations

import asyncio
import faulthandler
import random
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np

from voxcli.server.encode import STREAMED, WholeFile, choose_coding
from voxcli.server.strand import Strand

RATE = 24_000
NUM_CLIENTS = 25


async def client(name: str, *, is_whole: bool) -> None:
    coding = choose_coding(name, RATE, None)
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 2 * RATE).astype(np.float32)
    if is_whole:
        file = WholeFile(coding, RATE)
        async with Strand(file.close) as strand:
            while True:
                await strand.call(file.write, noise)
    encoder = coding.stream(RATE)
    async with Strand(encoder.close) as strand:
        while True:
            await strand.call(encoder.encode, noise)


async def leave(name: str, *, is_whole: bool) -> None:
    moments = random.Random(7)
    for _ in range(NUM_CLIENTS):
        task = asyncio.create_task(client(name, is_whole=is_whole))
        await asyncio.sleep(moments.uniform(0, 0.05))
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # also while it lets go
        with suppress(asyncio.CancelledError):
            await task


def main(name: str, how: str) -> None:
    faulthandler.enable()
    assert how == "whole" or name in STREAMED
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        asyncio.run(leave(name, is_whole=how == "whole"))
        for thread in threading.enumerate():
            if thread.name.startswith("strand"):
                thread.join()
        assert not list(Path(folder).iterdir())


if __name__ == "__main__":
    main(*sys.argv[1:])
