"""First sound of a sentence that is written word by word, against that of a whole text.

    voxcli serve --port 8101 --background
    python recipes/live_latency.py http://127.0.0.1:8101 --times 30

In turns: the sentence alone as a streamed request, from its sending to the first samples that are
no silence; and the same sentence at the head of a text that is written a word every 20 ms over the
WebSocket, from the word behind its end, which makes it certain, to its first samples.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time

import httpx
import numpy as np
from websockets.asyncio.client import connect

SENTENCE = "The ferry leaves at noon."
REST = "It comes back in the evening, and it is never late."
WORD_S = 0.02
REST_S = 0.3  # before each, for the server to come to rest
QUIET = 33  # of 16 bit; -60 dBFS
FIELDS = {"response_format": "pcm", "seed": 1}


def has_sound(data: bytes) -> bool:
    samples = np.frombuffer(data[: len(data) // 2 * 2], "<i2")
    return bool(len(samples)) and int(np.abs(samples.astype(int)).max()) >= QUIET


def of_request(client: httpx.Client) -> float:
    body = {**FIELDS, "input": SENTENCE, "stream": True}
    time.sleep(REST_S)
    began_s = time.perf_counter()
    with client.stream("POST", "/v1/audio/speech", json=body) as answer:
        answer.raise_for_status()
        first_s = 0.0
        for piece in answer.iter_raw():
            if not first_s and has_sound(piece):
                first_s = time.perf_counter() - began_s
    return first_s


async def of_websocket(url: str) -> float:
    address = f"{url.replace('http', 'ws', 1)}/v1/audio/speech/stream"
    async with connect(address, proxy=None) as socket:
        await socket.send(json.dumps({"type": "session.config", **FIELDS}))
        await socket.recv()
        await asyncio.sleep(REST_S)
        for word in SENTENCE.split():
            await asyncio.sleep(WORD_S)
            await socket.send(json.dumps({"type": "input.text", "text": f" {word}"}))
        await asyncio.sleep(WORD_S)
        began_s = time.perf_counter()
        await socket.send(json.dumps({"type": "input.text", "text": f" {REST.split()[0]}"}))
        while not (isinstance(piece := await socket.recv(), bytes) and has_sound(piece)):
            pass
        first_s = time.perf_counter() - began_s
        await socket.send(json.dumps({"type": "response.cancel"}))
    return first_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="of a server, such as http://127.0.0.1:8101")
    parser.add_argument("--times", type=int, default=30, help="of each, in turns")
    options = parser.parse_args()
    try:
        httpx.get(f"{options.url}/health", timeout=10).raise_for_status()
    except httpx.HTTPError as err:
        parser.error(f"no server answers at {options.url}: {err}")
    requests, websockets = [], []
    with httpx.Client(base_url=options.url, timeout=60) as client:
        for number in range(options.times + 2):  # the first two warm up
            found = of_request(client), asyncio.run(of_websocket(options.url))
            if number >= 2:
                requests.append(found[0])
                websockets.append(found[1])
    for name, values in (("request", requests), ("WebSocket", websockets)):
        ordered = sorted(values)
        quarter = ordered[len(ordered) // 4]
        print(
            f"{name}: {1000 * statistics.median(values):.0f} ms in the median, "
            f"{1000 * quarter:.0f} or less in a quarter, "
            f"{1000 * ordered[0]:.0f} to {1000 * ordered[-1]:.0f}"
        )
    more_s = statistics.median(b - a for a, b in zip(requests, websockets, strict=True))
    print(f"difference, median of pairs: {1000 * more_s:+.0f} ms")


if __name__ == "__main__":
    main()
