"""Time to the first audio over HTTP, of a real server over RANDOM WEIGHTS of a true size.

    python tests/gpu/bench_http.py CONFIG_JSON bf16 --voice serena

Not a test. A child process serves; each stream here is a client with a connection of its own, whose
clock runs from the first byte of its request to the first byte of audio. One stream at a time,
then 20 random arrivals a second, then crowds that keep going. All speeches have 125 frames.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from voxcli.config import EngineConfig

HOST, FRAMES, MAX_STREAMS = "127.0.0.1", 125, 64
TEXT = "The last ferry of the evening leaves the island a little after nine."
ALONE, OPEN_S = 60, 15.0  # requests one by one, seconds of random arrivals


def serve(config: Path, precision: str, port: int) -> None:
    """As `voxcli serve`, over random weights."""
    from voxcli.engine.choose import RandomWeights, open_random_engine
    from voxcli.server.app import build_app
    from voxcli.server.door import Door
    from voxcli.server.limits import Listening, WorkerLimits
    from voxcli.server.run import ServerProcess
    from voxcli.server.service import Service
    from voxcli.server.worker import EngineWorker

    logging.basicConfig(level="WARNING")
    settings = EngineConfig(precision=precision, max_slots=MAX_STREAMS)
    engine = open_random_engine(RandomWeights(config, FRAMES), settings)
    listening = Listening(HOST, port, None, 1.0)
    with Door.open(listening, None, model=engine.facts.model) as door:
        worker = EngineWorker(engine, WorkerLimits(MAX_STREAMS, MAX_STREAMS))
        app = build_app(Service(worker, door.url), api_key=None, hosts=listening.hosts)
        ServerProcess(app, worker, door.sockets(), grace_s=1.0).run()


@dataclass(frozen=True)
class Heard:
    """Seconds to the first byte of audio and to the last, and bytes of audio."""

    first_s: float
    whole_s: float
    num_bytes: int


async def speak(port: int, body: bytes) -> Heard:
    head = (
        f"POST /v1/audio/speech HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(head + body)
    status = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in status.split(b"\r\n", 1)[0], status
    size = len(await reader.readuntil(b"\r\n"))  # of the first chunk
    first_s = time.perf_counter() - started
    size += len(await reader.read(-1))
    writer.close()
    return Heard(first_s, time.perf_counter() - started, size)


def show(name: str, heard: list[Heard], wall_s: float, sample_rate: int) -> None:
    first = sorted(1e3 * each.first_s for each in heard)
    seconds = sum(each.num_bytes for each in heard) / 2 / sample_rate
    print(
        f"HTTP {name}: {len(heard)} speeches, TTFA median {statistics.median(first):.1f} ms, "
        f"p95 {first[int(0.95 * len(first))]:.1f}, most {first[-1]:.1f}; "
        f"{seconds / wall_s:.0f} audio-s/s",
        flush=True,
    )


async def measure(port: int, body: bytes, sample_rate: int) -> None:
    async def timed(name: str, work: list[asyncio.Future[Heard] | asyncio.Task[Heard]]) -> None:
        started = time.perf_counter()
        show(name, await asyncio.gather(*work), time.perf_counter() - started, sample_rate)

    await asyncio.gather(*(speak(port, body) for _ in range(MAX_STREAMS)))  # warm
    for _ in range(3):
        await speak(port, body)
    started = time.perf_counter()
    alone = [await speak(port, body) for _ in range(ALONE)]
    show("one at a time", alone, time.perf_counter() - started, sample_rate)
    for rate in (5, 20):
        generator, started, running = random.Random(0), time.perf_counter(), []
        while time.perf_counter() - started < OPEN_S:
            running.append(asyncio.create_task(speak(port, body)))
            await asyncio.sleep(generator.expovariate(rate))
        heard = list(await asyncio.gather(*running))
        show(f"{rate} arrivals a second", heard, time.perf_counter() - started, sample_rate)
    for crowd in (8, 32, 64):

        async def user() -> list[Heard]:
            return [await speak(port, body) for _ in range(3)]

        started = time.perf_counter()
        heard = [each for users in await asyncio.gather(*(user() for _ in range(crowd)))
                 for each in users]  # fmt: skip
        show(f"{crowd} at once", heard, time.perf_counter() - started, sample_rate)


async def until_ready(port: int, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            reader, writer = await asyncio.open_connection(HOST, port)
            head = f"GET /health HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode())
            answer = await reader.read(-1)
            writer.close()
            if b'"ready"' in answer:
                return
        except OSError:
            pass  # it does not listen yet
        await asyncio.sleep(0.2)
    raise SystemExit(f"the server ended with {server.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("precision")
    parser.add_argument("--voice", default="default")
    parser.add_argument("--sample-rate", type=int, default=24_000, help="Hz of pcm")
    parser.add_argument("--serve", type=int, metavar="PORT")
    options = parser.parse_args()
    if options.serve:
        serve(options.config, options.precision, options.serve)
        return
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    started = time.perf_counter()
    command = [sys.executable, __file__, str(options.config), options.precision]
    with subprocess.Popen([*command, "--serve", str(port)]) as server:
        try:
            asyncio.run(asyncio.wait_for(until_ready(port, server), 300))
            print(f"ready after {time.perf_counter() - started:.1f} s", flush=True)
            request = {
                "model": str(options.config), "input": TEXT, "voice": options.voice,
                "response_format": "pcm", "stream": True,
            }  # fmt: skip
            asyncio.run(measure(port, json.dumps(request).encode(), options.sample_rate))
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
