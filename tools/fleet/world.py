"""A batch over simulated servers in simulated time: the real dispatcher, a client and its network.

Every row is planned, sent, spoken, carried over the client's network, taken, and written. The
client is one process: what it does for rows happens one after the other. Servers may die, come
back, hang and refuse.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from fleet.servers import Service, SimulatedServer
from voxcli.engine.fleet.cap import Cap
from voxcli.engine.fleet.dispatcher import Dispatcher, Row, Server

SILENCE_S = 30.0  # after which the client lets a silent server go
ANSWER_S = 3.0  # that a server has to say that it is up
WINDOW = 128  # rows among which `voxcli batch` starts the longest first


@dataclass(frozen=True)
class Client:
    """The machine that a batch is started on.

    Attributes:
        cpu_row_s, cpu_audio_s: CPU seconds of a row, and of a second of audio in it.
        plan_s: that planning a row waits for a server; the rows after it wait too.
        latency_s: to a server, one way.
        network_bytes: that it takes a second.
        disk_bytes: that its disk writes a second.
        file_bytes: of a second of audio.
    """

    cpu_row_s: float = 0.0
    cpu_audio_s: float = 0.0
    plan_s: float = 0.0
    latency_s: float = 0.0005
    network_bytes: float = 1.25e9
    disk_bytes: float = 500e6
    file_bytes: float = 96e3

    @classmethod
    def endless(cls) -> Client:
        """One that takes whatever servers make, to see these alone."""
        return cls(network_bytes=1e15, disk_bytes=1e15)


@dataclass(frozen=True)
class Fault:
    """Something that happens to a server.

    Attributes:
        what: "dies", "hangs" or "refuses" (429).
        server: its index.
        at_s, back_s: from when to when.
    """

    what: str
    server: int
    at_s: float
    back_s: float


@dataclass(eq=False)
class Job:
    """A row of the table.

    Attributes:
        audio_s: that it really has; the dispatcher has an estimate.
        flight: counts its tries; news of an older one is none.
    """

    audio_s: float
    row: Row
    flight: int = 0
    ended_s: float = 0.0
    why: str = ""


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        wall_s: to the last row.
        shares: of that time in which something was at work: "server" on average, "client",
            "network", "disk".
    """

    wall_s: float
    num_ok: int
    num_failed: int
    audio_s: float
    shares: dict[str, float]
    num_tries: int
    caps: list[int]

    @property
    def rows_an_hour(self) -> float:
        return 3600 * self.num_ok / self.wall_s

    @property
    def first(self) -> str:
        """What was busiest."""
        return max(self.shares, key=lambda name: self.shares[name])


def table(
    num_rows: int, *, seed: int = 0, mean_s: float = 5.0, spread: float = 0.6, error: float = 0.15
) -> list[tuple[float, float]]:
    """Rows as pairs of real and estimated seconds of audio, like the lines of a film: log-normal.

    Args:
        spread: of the logarithm of lengths.
        error: of the logarithm of the estimate.
    """
    numbers = random.Random(seed)
    found = []
    for _ in range(num_rows):
        audio_s = min(40.0, max(0.6, mean_s * numbers.lognormvariate(-(spread**2) / 2, spread)))
        found.append((audio_s, audio_s * numbers.lognormvariate(0.0, error)))
    return found


def longest_first(
    rows: list[tuple[float, float]], window: int = WINDOW
) -> list[tuple[float, float]]:
    """The order of `voxcli batch`."""
    parts = (rows[first : first + window] for first in range(0, len(rows), window))
    return [row for part in parts for row in sorted(part, key=lambda each: -each[1])]


class World:
    """See the module.

    Args:
        rows: real and estimated seconds of audio, in the order in which they are started.
        speeds: of each server, beside the service's.

    Attributes:
        most_at_once: rows that each server had.
    """

    def __init__(
        self,
        service: Service,
        speeds: Sequence[float],
        rows: list[tuple[float, float]],
        *,
        client: Client | None = None,
        faults: Sequence[Fault] = (),
        kind: type[Dispatcher] = Dispatcher,
        cap: tuple[int, int] | None = None,
        seed: int = 0,
    ) -> None:
        self._client = client or Client.endless()
        self._wire_bytes = service.sample_rate * service.sample_bytes
        self._simulated = [SimulatedServer(service, speed) for speed in speeds]
        self._servers = [
            Server(index, f"s{index}", Cap(*cap) if cap else Cap(may_leap=len(speeds) == 1))
            for index in range(len(speeds))
        ]
        if cap is None and not service.takes_waves:  # vLLM-Omni does not say how many it takes
            for server in self._servers:
                server.cap.limit_to(service.most, is_stated=True)
        self._dispatcher = kind(self._servers, jitter=random.Random(seed))
        self._todo = deque(Job(audio_s, Row(work_s)) for audio_s, work_s in rows)
        self._num_rows = len(rows)
        self._jobs: dict[Row, Job] = {}
        self._in_work = 0
        self._ended: list[Job] = []
        self._events: list[tuple[float, int, str, tuple[object, ...]]] = []
        self._numbers = count()
        self._faults = faults
        self._refusing: set[int] = set()
        self._due: dict[int, int] = {}  # server -> number of the event for its next end
        self._free_s = {"client": 0.0, "network": 0.0, "disk": 0.0}
        self._busy_s = dict(self._free_s)
        self._num_tries = 0
        self.most_at_once = [0] * len(speeds)
        self.now_s = 0.0

    # ------------------------------------------------------------ time

    def _at(self, at_s: float, what: str, *about: object) -> int:
        number = next(self._numbers)
        heapq.heappush(self._events, (at_s, number, what, about))
        return number

    def run(self, until_s: float = 1e6) -> Outcome:
        for fault in self._faults:
            self._at(fault.at_s, "begins", fault)
            self._at(fault.back_s, "is_over", fault)
        wake_s = -1.0
        while len(self._ended) < self._num_rows:
            self._turn()
            at_s = self._dispatcher.wake_s(self.now_s)
            if at_s is not None and at_s != wake_s:
                wake_s = at_s
                self._at(at_s, "tick")
            assert self._events, "nothing can happen any more, and rows are left"
            self.now_s, number, what, about = heapq.heappop(self._events)
            assert self.now_s < until_s, f"rows are left after {until_s} s"
            if what == "ends":
                self._on_ends(number, *about)
            else:
                getattr(self, f"_on_{what}")(*about)
        return self._outcome()

    def _outcome(self) -> Outcome:
        wall_s = max(job.ended_s for job in self._ended)
        ok = [job for job in self._ended if not job.why]
        busy_s = sum(each.busy_s for each in self._simulated) / len(self._simulated)
        shares = {"servers": busy_s / wall_s}
        shares |= {name: each / wall_s for name, each in self._busy_s.items()}
        return Outcome(
            wall_s, len(ok), len(self._ended) - len(ok), sum(job.audio_s for job in ok), shares,
            self._num_tries, [server.cap.now for server in self._servers],
        )  # fmt: skip

    def _use(self, name: str, took_s: float, from_s: float) -> float:
        """Wait for something that does one thing at a time; when it is done."""
        self._free_s[name] = max(self._free_s[name], from_s) + took_s
        self._busy_s[name] += took_s
        return self._free_s[name]

    # ------------------------------------------------------------ the batch

    def _turn(self) -> None:
        dispatcher, client = self._dispatcher, self._client
        while self._todo and self._in_work < dispatcher.room:
            job = self._todo.popleft()
            self._jobs[job.row] = job
            self._in_work += 1
            self._use("client", client.plan_s, self.now_s)
            dispatcher.add(job.row)
        for row, server in dispatcher.moves(self.now_s):
            job = self._jobs[row]
            job.flight += 1
            self._simulated[server.index].remove(job, self.now_s)
            self._plan_end(server)
        for row, server in dispatcher.next(self.now_s):
            job = self._jobs[row]
            job.flight += 1
            self._num_tries += 1
            self.most_at_once[server.index] = max(self.most_at_once[server.index], len(server.rows))
            sent_s = max(self.now_s, self._free_s["client"]) + client.latency_s
            self._at(sent_s, "sent", job, job.flight, server)
        for server in dispatcher.probes(self.now_s):
            simulated = self._simulated[server.index]
            takes_s = ANSWER_S if simulated.is_hanging else 2 * client.latency_s + 0.01
            self._at(self.now_s + takes_s, "answer", server)

    def _end(self, row: Row, why: str = "") -> None:
        job = self._jobs.pop(row)
        job.why, job.ended_s = why, self.now_s
        self._in_work -= 1
        self._ended.append(job)

    def _is_current(self, job: Job, flight: int) -> bool:
        return job.flight == flight and job.row.server is not None

    # ------------------------------------------------------------ events

    def _on_tick(self) -> None:
        pass

    def _on_sent(self, job: Job, flight: int, server: Server) -> None:
        if not self._is_current(job, flight):
            return
        simulated, back_s = self._simulated[server.index], self.now_s + self._client.latency_s
        if not simulated.is_up:
            self._at(back_s, "broken", job, flight, False)
        elif server.index in self._refusing:
            self._at(back_s, "busy", job, flight)
        else:
            simulated.add(job, job.audio_s, self.now_s)
            self._plan_end(server)
            if simulated.is_hanging:
                self._at(self.now_s + SILENCE_S, "silent", server, [(job, flight)])

    def _plan_end(self, server: Server) -> None:
        at_s = self._simulated[server.index].next_end_s()
        self._due[server.index] = -1 if at_s is None else self._at(at_s, "ends", server)

    def _on_ends(self, number: int, server: Server) -> None:
        if self._due.get(server.index) != number:  # somebody came since
            return
        for job in self._simulated[server.index].take_ended(self.now_s):
            num_bytes = job.audio_s * self._wire_bytes
            here_s = self._use("network", num_bytes / self._client.network_bytes, self.now_s)
            cpu_s = self._client.cpu_row_s + self._client.cpu_audio_s * job.audio_s
            taken_s = self._use("client", cpu_s, here_s + self._client.latency_s)
            self._at(taken_s, "spoken", job, job.flight)
        self._plan_end(server)

    def _on_spoken(self, job: Job, flight: int) -> None:
        if not self._is_current(job, flight):
            return
        self._dispatcher.done(job.row, self.now_s, job.audio_s)
        num_bytes = job.audio_s * self._client.file_bytes
        self._use("disk", num_bytes / self._client.disk_bytes, self.now_s)
        self._end(job.row)

    def _on_broken(self, job: Job, flight: int, had_begun: bool) -> None:
        if self._is_current(job, flight):
            self._dispatcher.broken(job.row, self.now_s, had_begun=had_begun)

    def _on_busy(self, job: Job, flight: int) -> None:
        if self._is_current(job, flight):
            self._dispatcher.busy(job.row, self.now_s)

    def _on_silent(self, server: Server, since: list[tuple[Job, int]]) -> None:
        for job, flight in since:
            if self._is_current(job, flight):
                self._simulated[server.index].remove(job, self.now_s)
                self._dispatcher.broken(job.row, self.now_s)

    def _on_answer(self, server: Server) -> None:
        simulated = self._simulated[server.index]
        is_up = simulated.is_up and not simulated.is_hanging
        for given_up in self._dispatcher.probed(server, is_up, self.now_s):
            self._end(given_up.row, given_up.why)

    def _on_begins(self, fault: Fault) -> None:
        server, simulated = self._servers[fault.server], self._simulated[fault.server]
        if fault.what == "refuses":
            self._refusing.add(fault.server)
        elif fault.what == "hangs":
            simulated.advance(self.now_s)
            simulated.is_hanging = True
            self._plan_end(server)
            self._at(self.now_s + SILENCE_S, "silent", server, list(self._held_by(server)))
        else:
            back_s = self.now_s + self._client.latency_s
            lost = simulated.crash(self.now_s)
            self._plan_end(server)
            for job in [job for jobs in lost for job in jobs]:
                assert isinstance(job, Job)
                self._at(back_s, "broken", job, job.flight, True)

    def _held_by(self, server: Server) -> Iterator[tuple[Job, int]]:
        for row in server.rows:
            job = self._jobs[row]
            yield job, job.flight

    def _on_is_over(self, fault: Fault) -> None:
        simulated = self._simulated[fault.server]
        self._refusing.discard(fault.server)
        simulated.advance(self.now_s)
        simulated.is_up, simulated.is_hanging = True, False
        self._plan_end(self._servers[fault.server])
