"""Load a running server with many streams, and check for errors, lost samples and growing memory.

    voxcli serve --background --max-streams 32
    python tools/load_server.py --streams 32 --rounds 5 --seconds 60

Each stream asks for the same sentences with fixed seeds, and compares the samples with those that
the server made offline (not streamed). All rounds use the same server. The first two warm up slots
and heap. The median memory of a round shows what stays; the maximum includes temporary tensors.
Expected: 0 errors, 0 differences, and no median more than 3 % above the first one after the
warm-up. Otherwise the exit code is 1. On a GPU nearly all streams differ, because the rounding of
its kernels depends on the number of streams.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
from pathlib import Path

TEXTS = ("The ferry leaves at noon.", "Bring a warm jacket.", "Two trains stop here every hour.")
MIN_TEXTS = 2  # of each user in the first round
WARM_UP_ROUNDS = 2
MAX_GROWTH = 0.03
INTERVAL_S = 10.0  # between lines


def ask(host: str, path: str, body: object = None) -> tuple[bytes, float]:
    """The answer, and seconds to its first bytes."""
    connection = http.client.HTTPConnection(host, timeout=600)
    started = time.perf_counter()
    headers = {"Content-Type": "application/json"}
    connection.request("POST" if body else "GET", path, json.dumps(body), headers)
    answer = connection.getresponse()
    first = answer.read(2)
    ttfa_s = time.perf_counter() - started
    data = first + answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(data.decode())
    return data, ttfa_s


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


class Load:
    """Users that ask one sentence after the other; what they got."""

    def __init__(self, host: str, num_users: int) -> None:
        health = json.loads(ask(host, "/health")[0])
        self.host, self.model, self.pid = host, health["model"], health["pid"]
        self.num_users = num_users
        self.offline = [self.speak(index, stream=False)[0] for index in range(len(TEXTS))]
        self.errors: list[str] = []
        self.ttfas: list[float] = []
        self.num_bytes = 0

    def speak(self, index: int, *, stream: bool) -> tuple[bytes, float]:
        body = {"model": self.model, "input": TEXTS[index], "seed": 1 + index}
        body |= {"stream": stream, "response_format": "pcm"}
        return ask(self.host, "/v1/audio/speech", body)

    def user(self, turn: int, is_over: threading.Event, min_texts: int) -> None:
        while min_texts > 0 or not is_over.is_set():
            turn, min_texts = turn + 1, min_texts - 1
            try:
                samples, ttfa_s = self.speak(turn % len(TEXTS), stream=True)
                assert samples == self.offline[turn % len(TEXTS)], "the samples differ"
            except Exception as err:
                self.errors.append(repr(err))
                continue
            self.ttfas.append(ttfa_s)
            self.num_bytes += len(samples)

    def run(self, seconds: float, min_texts: int) -> tuple[float, float]:
        """All users for so long and so many texts; the server's memory in MB, median and most."""
        is_over = threading.Event()
        users = [
            threading.Thread(target=self.user, args=(turn, is_over, min_texts), daemon=True)
            for turn in range(self.num_users)
        ]
        started = shown = time.monotonic()
        memory = []
        for user in users:
            user.start()
        while any(user.is_alive() for user in users):
            memory.append(memory_mb(self.pid))
            now = time.monotonic()
            if now - shown >= INTERVAL_S:
                shown = now
                print(f"{now - started:4.0f} s  {memory[-1]:6.0f} MB  {len(self.ttfas)} streams")
            if now - started > seconds:
                is_over.set()
            time.sleep(0.5)
        return statistics.median(memory), max(memory)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", default="127.0.0.1:8091")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each round")
    options = parser.parse_args()
    load = Load(options.host, options.streams)
    usual = []
    for number in range(WARM_UP_ROUNDS + options.rounds):
        num_bytes, started = load.num_bytes, time.monotonic()
        memory, most = load.run(options.seconds, 0 if number else MIN_TEXTS)
        usual.append(memory)
        audio_s = (load.num_bytes - num_bytes) / 2 / 24_000
        print(
            f"round {number}: {memory:.0f} MB, at most {most:.0f}; "
            f"{audio_s / (time.monotonic() - started):.1f} s of audio a second",
            flush=True,
        )
    print(f"{len(load.ttfas)} streams equal to the offline file, {len(load.errors)} errors")
    print(*load.errors[:3], sep="\n", end="\n" if load.errors else "")
    if load.ttfas:
        print(f"TTFA median {statistics.median(load.ttfas):.2f} s")
    growth = max(usual[WARM_UP_ROUNDS:]) / usual[WARM_UP_ROUNDS] - 1
    print(f"memory {growth:+.1%} after the warm-up")
    return int(bool(load.errors) or growth > MAX_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
