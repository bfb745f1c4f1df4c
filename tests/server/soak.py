"""A real server on the bundled voice under clients of every kind, and what is left of them.

    python tests/server/soak.py 300

Clients read a whole answer, leave in the middle, read slowly, stop in a body, upload recordings,
speak through other commands' interface, and write in pieces, all codecs, live and whole. Before and
after the load, when nothing is asked for, the process is looked at from outside.
"""

from __future__ import annotations

import io
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import soundfile
from websockets.sync.client import connect

from voxcli.audio.formats import has_ffmpeg
from voxcli.audio.read import decode_audio
from voxcli.config import SamplingParams
from voxcli.engine.base import Wanted
from voxcli.engine.remote.find import connect_to
from voxcli.utterance import Recording, Use, Utterance

SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "voices"
WAIT_S = 300.0  # for an answer on a machine that does more; only a hang takes as long
NUM_CLIENTS = 10
NUM_STREAMS = 4
NUM_ROUNDS = 3
SETTLED_S = 3.0  # of quiet before the process is looked at; the server tidies its memory every 2 s
SEEDS = range(3)
TEXTS = (
    "Go on.",
    "The ferry leaves at noon. Bring a warm jacket, and mind the step.",
    "It rained all day, so we stayed at home and read. " * 6,
)
FORMATS = ("mp3", "opus", "flac", "wav", "pcm", *(("aac",) if has_ffmpeg() else ()))
# What can be read back: a streamed flac states no length, and libsndfile asks for one.
FILES = [name for name in FORMATS if name != "pcm"]
STREAMS = ["mp3", "opus", "wav", *(("flac",) if has_ffmpeg() else ())]


@dataclass(frozen=True)
class Look:
    """The server's process from outside, and what it says of itself."""

    rss_mb: float
    num_descriptors: int
    num_threads: int
    num_files: int  # temporary ones
    busy: int  # streams and queue
    idle_load: float  # of a core, while nothing is asked for


@dataclass
class Report:
    """What happened.

    Attributes:
        did: what clients did, and how often.
        statuses: of their requests.
        wrong: what should not have been.
        looks: after the warm-up, and after each round of the load.
    """

    seconds: float = 0.0
    did: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """Of the resident memory from the first look to the last, as a share."""
        return self.looks[-1].rss_mb / self.looks[0].rss_mb - 1


class Clients:
    """Threads that ask without a pause until told to stop."""

    def __init__(self, url: str, report: Report, seed: int) -> None:
        self._url = url
        self._report = report
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._references = {
            (text, number): self._speak(text, number) for text in TEXTS[:2] for number in SEEDS
        }
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(seed + number),))
            for number in range(NUM_CLIENTS)
        ]

    def run(self, seconds: float) -> None:
        for thread in self._threads:
            thread.start()
        self._is_over.wait(seconds)
        self._is_over.set()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()

    def _run(self, chance: random.Random) -> None:
        deeds: list[Callable[[random.Random], None]] = [
            self.read, self.read, self.leave, self.leave, self.leave, self.stop_in_a_body,
            self.read_slowly, self.upload, self.upload_rubbish, self.be_a_command,
            self.be_a_command_that_leaves, self.encode, self.write_in_pieces,
        ]  # fmt: skip
        while not self._is_over.is_set():
            deed = chance.choice(deeds)
            try:
                deed(chance)
                self._count(did=deed.__name__)
            except Exception as err:
                with self._lock:
                    self._report.wrong.append(f"{deed.__name__}: {type(err).__name__}: {err}")

    def _count(self, *, did: str = "", status: int = 0) -> None:
        with self._lock:
            self._report.did.update([did] if did else [])
            self._report.statuses.update([status] if status else [])
            if status >= 500:
                self._report.wrong.append(f"status {status}")

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._url, timeout=WAIT_S)

    def _body(self, chance: random.Random) -> dict[str, Any]:
        name = chance.choice(FORMATS)
        body: dict[str, Any] = {
            "model": "mini", "input": chance.choice(TEXTS), "response_format": name,
            "stream": name != "aac" and chance.random() < 0.6,
        }  # fmt: skip
        if body["stream"] and chance.random() < 0.3:
            body["stream_format"] = "sse"
        if chance.random() < 0.1:
            body["steps"] = chance.choice([4, 12])
        return body

    # ------------------------------------------------------------ deeds

    def read(self, chance: random.Random) -> None:
        """The whole answer, which has to decode."""
        body = self._body(chance)
        with self._client() as client:
            answer = client.post("/v1/audio/speech", json=body)
        self._count(status=answer.status_code)
        is_audio = answer.status_code == 200 and "stream_format" not in body
        if is_audio and body["response_format"] in (STREAMS if body["stream"] else FILES):
            assert decode_audio(answer.content, "an answer").duration_s > 0.3, "it is too short"

    def leave(self, chance: random.Random) -> None:
        """After some bytes, or before any."""
        with self._client() as client:
            call = client.stream("POST", "/v1/audio/speech", json=self._body(chance))
            with call as answer:
                self._count(status=answer.status_code)
                left = chance.choice([0, 100, 10_000, 60_000])
                for piece in answer.iter_raw(1000) if left else ():
                    left -= len(piece)
                    if left <= 0:
                        break

    def read_slowly(self, chance: random.Random) -> None:
        body = {**self._body(chance), "input": TEXTS[2], "sample_rate": 48_000}
        body["response_format"] = chance.choice(["pcm", "wav"])
        with (
            self._client() as client,
            client.stream("POST", "/v1/audio/speech", json=body) as answer,
        ):
            self._count(status=answer.status_code)
            for _, _ in zip(answer.iter_raw(2000), range(20), strict=False):
                time.sleep(0.1)

    def stop_in_a_body(self, chance: random.Random) -> None:
        path = chance.choice(["/v1/audio/speech", "/v1/audio/voices", "/v1/voxcli/speech"])
        host, port = self._url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as raw:
            head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 500000\r\n\r\n"
            raw.sendall(head.encode() + bytes(chance.choice([0, 10, 200_000])))
            time.sleep(chance.uniform(0, 0.3))

    def upload(self, chance: random.Random) -> None:
        """A voice that comes, is listed, speaks and goes."""
        name = f"voice-{chance.getrandbits(40)}"
        audio = (SAMPLES / "clara.flac").read_bytes()
        with self._client() as client:
            answer = client.post(
                "/v1/audio/voices", data={"name": name, "consent": "yes"},
                files={"audio_sample": ("a.flac", audio)},
            )  # fmt: skip
            self._count(status=answer.status_code)
            if answer.status_code != 200:
                assert answer.status_code == 429, answer.text
                return
            listed = client.get("/v1/audio/voices")
            self._count(status=listed.status_code)
            body = {"model": "mini", "input": TEXTS[0], "voice": name, "response_format": "opus"}
            self._count(status=client.post("/v1/audio/speech", json=body).status_code)
            gone = client.delete(f"/v1/audio/voices/{name}")
            while gone.status_code == 429:
                time.sleep(0.5)
                gone = client.delete(f"/v1/audio/voices/{name}")
            self._count(status=gone.status_code)

    def upload_rubbish(self, chance: random.Random) -> None:
        audio = chance.choice([bytes(3_000_000), b"just words " * 1000, bomb()])
        with self._client() as client:
            answer = client.post(
                "/v1/audio/voices", data={"name": "rubbish", "consent": "yes"},
                files={"audio_sample": ("a.flac", audio)},
            )  # fmt: skip
        self._count(status=answer.status_code)
        assert answer.status_code in (400, 429), answer.text

    def be_a_command(self, chance: random.Random) -> None:
        """The samples are those of the first time, whoever else is there."""
        text, number = chance.choice(TEXTS[:2]), chance.choice(SEEDS)
        assert self._speak(text, number) == self._references[text, number], "other samples"

    def be_a_command_that_leaves(self, chance: random.Random) -> None:
        engine = connect_to(self._url, Wanted("mini"))
        with engine.stream(self._utterance(TEXTS[2], 1), is_live=chance.random() < 0.5) as stream:
            if chance.random() < 0.7:
                next(stream)

    def write_in_pieces(self, chance: random.Random) -> None:
        """Over the WebSocket, to the end, or with an interruption, or leaving in the middle."""
        url = f"{self._url.replace('http', 'ws', 1)}/v1/audio/speech/stream"
        with connect(url, proxy=None, open_timeout=WAIT_S) as talk:

            def say(kind: str, **fields: Any) -> None:
                talk.send(json.dumps({"type": kind, **fields}))

            say("session.config", response_format=chance.choice(["pcm", "mp3", "opus"]))
            for word in chance.choice(TEXTS).split():
                say("input.text", text=f" {word}")
            say(chance.choice(["input.done", "input.flush", "response.cancel"]))
            if chance.random() < 0.5:
                return
            say("session.close")
            for _ in talk:
                pass
            assert talk.close_code == 1000, f"closed with {talk.close_code}"

    def encode(self, chance: random.Random) -> None:
        recording = Recording(np.zeros(16_000 * chance.choice([1, 20]), np.float32), 16_000)
        engine = connect_to(self._url, Wanted("mini"))
        assert engine.encode(recording, [Use.REFERENCE]).arrays

    def _speak(self, text: str, number: int) -> bytes:
        engine = connect_to(self._url, Wanted("mini"))
        result = engine.synthesize([self._utterance(text, number)])[0]
        data: bytes = result.samples.tobytes()
        return data

    @staticmethod
    def _utterance(text: str, number: int) -> Utterance:
        return Utterance(text, sampling=SamplingParams(seed=number))


def bomb() -> bytes:
    """A small file of three minutes of silence in eight channels."""
    data = io.BytesIO()
    with soundfile.SoundFile(data, "w", 48_000, 8, "PCM_16", format="FLAC") as file:
        for _ in range(180):
            file.write(np.zeros((48_000, 8), np.float32))
    return data.getvalue()


# ---------------------------------------------------------------- the server


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, str, Path]]:
    """Process id, URL and the folder of its temporary files."""
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = {
        **os.environ, "XDG_RUNTIME_DIR": "", "XDG_DATA_HOME": str(folder), "TMPDIR": str(temporary)
    }  # fmt: skip
    log = folder / "serve.log"
    words = ["serve", "--port", "0", "--device", "cpu", "--no-socket"]
    words += ["--max-streams", str(NUM_STREAMS)]
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "voxcli", *words], stderr=file, stdout=file, env=environment
        )
    try:
        while " is ready on " not in (said := log.read_text("utf-8")):
            assert process.poll() is None, said
            time.sleep(0.1)
        url = said.partition(" is ready on ")[2].split()[0]
        yield process.pid, url, temporary
        assert process.poll() is None, f"the server ended: {log.read_text('utf-8')[-2000:]}"
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        process.kill()


def look(pid: int, url: str, temporary: Path) -> Look:
    """Once nothing is asked for any more."""
    end_s = time.monotonic() + WAIT_S
    while (busy := _busy(url)) and time.monotonic() < end_s:
        time.sleep(0.2)
    time.sleep(SETTLED_S)
    began_s, cpu_s = time.monotonic(), _cpu_s(pid)
    time.sleep(SETTLED_S)
    load = (_cpu_s(pid) - cpu_s) / (time.monotonic() - began_s)
    proc = Path("/proc") / str(pid)
    pages = int((proc / "statm").read_text().split()[1])
    return Look(
        rss_mb=pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        num_descriptors=len(os.listdir(proc / "fd")),
        num_threads=len(os.listdir(proc / "task")),
        num_files=sum(len(files) + len(folders) for _, folders, files in os.walk(temporary)),
        busy=busy,
        idle_load=round(load, 3),
    )


def _busy(url: str) -> int:
    health = httpx.get(f"{url}/health", timeout=WAIT_S).json()
    return int(health["streams"]) + int(health["queue"])


def _cpu_s(pid: int) -> float:
    words = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def soak(seconds: float, folder: Path, seed: int = 1) -> Report:
    """Load for so long, in rounds, after half of it to warm up: slots and heap find their size."""
    report = Report(seconds)
    with serving(folder) as (pid, url, temporary):
        Clients(url, report, seed).run(seconds / 2)
        report.looks.append(look(pid, url, temporary))
        for number in range(1, NUM_ROUNDS + 1):
            Clients(url, report, seed + 100 * number).run(seconds / NUM_ROUNDS)
            report.looks.append(look(pid, url, temporary))
    return report


def main(seconds: float) -> int:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        report = soak(seconds, Path(folder))
    shown = {**vars(report), "growth": round(report.growth, 4)}
    print(json.dumps(shown, indent=1, default=asdict))
    return bool(report.wrong)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
