"""Speech servers with measured step times, as processes in simulated time. No dispatcher.

Every row that is spoken gains a frame a step, and a step takes as long as was measured for so many
rows. Between two measurements a straight line is taken, beyond the last one too.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True)
class Service:
    """What was measured of one kind of server.

    Attributes:
        source: where the numbers are from.
        frame_s: seconds of audio a step makes for each row.
        step_ms: milliseconds a step takes, by rows.
        prompt_ms: that a newcomer adds to everybody's next step.
        most: rows that are spoken at once; more wait at the server.
        sample_rate: Hz.
        sample_bytes: that a sample has on its way to the client.
        takes_waves: no newcomer while any row is spoken.
        ready_s: from a restart to the first row.
    """

    name: str
    source: str
    frame_s: float
    step_ms: dict[int, float]
    prompt_ms: float
    most: int
    sample_rate: int
    sample_bytes: float
    takes_waves: bool = False
    ready_s: float = 15.0
    _step_s: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._step_s.extend(self._line(num_rows) for num_rows in range(self.most + 1))

    def step_s(self, num_rows: int) -> float:
        return self._step_s[num_rows]

    def _line(self, num_rows: int) -> float:
        known = sorted(self.step_ms)
        pairs = list(pairwise(known)) or [(known[0], known[0] + 1)]
        low, high = next((pair for pair in pairs if num_rows <= pair[1]), pairs[-1])
        first = self.step_ms[low]
        slope = (self.step_ms.get(high, first) - first) / (high - low)
        return (first + slope * (num_rows - low)) / 1e3

    def throughput(self, num_rows: int) -> float:
        """Seconds of audio a second, steady."""
        return num_rows * self.frame_s / self.step_s(num_rows)


FLOAT32 = 4.0  # as voxcli's own client takes it
BASE64_PCM16 = 2.0 * 4 / 3  # in server-sent events


def steps(frame_s: float, throughputs: dict[int, float]) -> dict[int, float]:
    """Step times from seconds of audio a second, by rows."""
    return {rows: 1e3 * rows * frame_s / each for rows, each in throughputs.items()}


OMNI = steps(0.16, {1: 11.4, 8: 63.4, 32: 95.7, 64: 109})

# New measurements replace lines here; docs/scaling.md has what comes of them.
SERVICES = (
    Service(
        "voxcli VoxCPM2 H200",
        "docs/benchmarks-gpu.md, bf16, commit 8e0110e; prompts: whole runs beside steady ones",
        0.16, {1: 3.34, 8: 6.57, 32: 10.27, 64: 15.87}, 0.9, 64, 48_000, FLOAT32, ready_s=9.7,
    ),
    Service(
        "voxcli Qwen3-TTS 0.6B H200",
        "docs/benchmarks-gpu.md, over HTTP with clients on the same machine, commit 62c0f19",
        0.08, steps(0.08, {1: 35, 8: 194, 32: 503, 64: 659}), 0.0, 64, 24_000, FLOAT32,
    ),
    Service(
        "voxcli Qwen3-TTS 1.7B H200",
        "docs/benchmarks-gpu.md, over HTTP with clients on the same machine, commit 62c0f19",
        0.08, steps(0.08, {1: 29, 8: 167, 32: 423, 64: 670}), 0.0, 64, 24_000, FLOAT32,
    ),
    Service(
        "voxcli mini 2 cores",
        "README.md, tools/batch_throughput.py, commit 9412f4a: one at a time and 64 at once",
        0.16, steps(0.16, {1: 28.8, 64: 71.8}), 0.0, 16, 24_000, FLOAT32, ready_s=3.0,
    ),
    Service(
        "vLLM-Omni VoxCPM2 H200",
        "docs/benchmarks-gpu.md, vLLM-Omni 0.26.0 beside voxcli on one card, prompts included; "
        "max_num_seqs 8 as shipped",
        0.16, OMNI, 0.0, 8, 48_000, BASE64_PCM16, True, ready_s=83.0,
    ),
    Service(
        "vLLM-Omni VoxCPM2 H200, max_num_seqs 64",
        "the same, max_num_seqs, the graphs' batch and the cache raised together to 64",
        0.16, OMNI, 0.0, 64, 48_000, BASE64_PCM16, True, ready_s=83.0,
    ),
)  # fmt: skip


@dataclass
class SimulatedServer:
    """Rows that are spoken side by side: all gain frames at the same speed.

    `position` is how many frames a row that had been here from the beginning would have.
    """

    service: Service
    speed: float = 1.0  # of this one beside the measured one
    position: float = 0.0
    at_s: float = 0.0  # of `position`; in the future while prompts run
    busy_s: float = 0.0
    is_up: bool = True
    is_hanging: bool = False
    ends: list[tuple[float, int, Hashable]] = field(default_factory=list)
    waiting: deque[tuple[Hashable, float]] = field(default_factory=deque)
    gone: set[Hashable] = field(default_factory=set)
    num_added: int = 0

    @property
    def num_spoken(self) -> int:
        return len(self.ends) - len(self.gone)

    def _step_s(self) -> float:
        return self.service.step_s(max(1, self.num_spoken)) / self.speed

    def advance(self, now_s: float) -> None:
        """Speak until now."""
        took_s = now_s - self.at_s
        if took_s <= 0.0:
            return
        self.at_s = now_s
        if self.ends and not self.is_hanging:
            self.position += took_s / self._step_s()
            self.busy_s += took_s

    def add(self, job: Hashable, audio_s: float, now_s: float) -> None:
        self.advance(now_s)
        self.waiting.append((job, audio_s))
        self._admit(now_s)

    def _admit(self, now_s: float) -> None:
        if self.is_hanging or (self.service.takes_waves and self.num_spoken):
            return
        while self.waiting and self.num_spoken < self.service.most:
            job, audio_s = self.waiting.popleft()
            self.num_added += 1
            frames = audio_s / self.service.frame_s
            heapq.heappush(self.ends, (self.position + frames, self.num_added, job))
            prompt_s = self.service.prompt_ms / 1e3 / self.speed
            self.at_s = max(self.at_s, now_s) + prompt_s
            self.busy_s += prompt_s

    def remove(self, job: Hashable, now_s: float) -> None:
        """Its client hung up."""
        self.advance(now_s)
        kept = [each for each in self.waiting if each[0] != job]
        if len(kept) < len(self.waiting):
            self.waiting = deque(kept)
        elif any(each[2] == job for each in self.ends):
            self.gone.add(job)
            self._forget_gone()
            self._admit(now_s)

    def _forget_gone(self) -> None:
        while self.ends and self.ends[0][2] in self.gone:
            self.gone.discard(heapq.heappop(self.ends)[2])
        if not self.num_spoken:
            self.ends, self.gone = [], set()

    def next_end_s(self) -> float | None:
        """When the next row will have been spoken, if nobody comes or goes."""
        if not self.ends or self.is_hanging or not self.is_up:
            return None
        return self.at_s + max(0.0, self.ends[0][0] - self.position) * self._step_s()

    def take_ended(self, now_s: float) -> list[Hashable]:
        self.advance(now_s)
        found: list[Hashable] = []
        while self.ends and self.ends[0][0] <= self.position + 1e-6:
            job = heapq.heappop(self.ends)[2]
            if job in self.gone:
                self.gone.discard(job)
            else:
                found.append(job)
        self._forget_gone()
        if found:
            self._admit(now_s)
        return found

    def crash(self, now_s: float) -> tuple[list[Hashable], list[Hashable]]:
        """Lose everything; what was spoken, and what waited."""
        self.advance(now_s)
        spoken = [job for _, _, job in self.ends if job not in self.gone]
        waiting = [job for job, _ in self.waiting]
        self.ends, self.gone = [], set()
        self.waiting.clear()
        self.is_up = self.is_hanging = False
        return spoken, waiting
