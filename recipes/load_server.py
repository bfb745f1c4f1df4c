"""Many streams at once on a running server: no error, no lost or repeated sample, flat memory.

    voxcli serve --background --max-streams 32
    python recipes/load_server.py --streams 32 --seconds 60

Each stream asks for the same sentences with fixed seeds and compares what arrives, sample by
sample, with what the server made offline (not streamed). Expected: 0 errors, 0 that differ, the
same memory after the first round and at the end.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import threading
import time
from pathlib import Path

TEXTS = ("The ferry leaves at noon.", "Bring a warm jacket.", "Two trains stop here every hour.")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1:8091")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    health = json.loads(ask(options.host, "/health")[0])

    def speak(index: int, *, stream: bool) -> tuple[bytes, float]:
        body = {"model": health["model"], "input": TEXTS[index], "seed": 1 + index}
        body |= {"stream": stream, "response_format": "pcm"}
        return ask(options.host, "/v1/audio/speech", body)

    offline = [speak(index, stream=False)[0] for index in range(len(TEXTS))]
    errors, ttfas, sizes, memory = [], [], [], []
    started = time.monotonic()

    def user(turn: int) -> None:
        while time.monotonic() < started + options.seconds:
            turn += 1
            try:
                samples, ttfa_s = speak(turn % len(TEXTS), stream=True)
                assert samples == offline[turn % len(TEXTS)], "the samples differ"
            except Exception as err:
                errors.append(repr(err))
                continue
            ttfas.append(ttfa_s)
            sizes.append(len(samples))
            memory.append(memory_mb(health["pid"]))

    users = [threading.Thread(target=user, args=(n,)) for n in range(options.streams)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    speed = sum(sizes) / 2 / 24_000 / (time.monotonic() - started)
    print(f"{len(sizes)} streams equal to the offline file, {len(errors)} errors", *errors[:3])
    print(f"{speed:.1f} s of audio a second; TTFA median {statistics.median(ttfas):.2f} s")
    print(
        f"memory {memory[len(users) - 1]:.0f} MB after the first round, {memory[-1]:.0f} MB at end"
    )


if __name__ == "__main__":
    main()
