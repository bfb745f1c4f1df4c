"""What `/metrics` shows, in Prometheus' text format. Knows a worker's counters and no route."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voxcli.errors import VoxError
from voxcli.server.listener import Listener
from voxcli.server.places import Places
from voxcli.server.response import outcome_of
from voxcli.server.schema import ReplicaRow
from voxcli.server.worker import EngineWorker, State

# "ok", "gone" (the client left), "stalled" (it stopped reading), "cancelled" (by its client, who
# listens on), "refused" (4xx), "failed" (ours)
OUTCOMES = ("ok", "gone", "stalled", "cancelled", "refused", "failed")
MEMORY = ("allocated", "reserved")  # as `SpeechEngine.card_memory` names it
TTFA_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0)
RTF_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0)


class Metrics:
    """The numbers of one process of a server, in a registry of their own."""

    def __init__(
        self,
        worker: EngineWorker,
        num_restarts: int = 0,
        replicas: Callable[[], list[ReplicaRow]] = list,
        live: Places | None = None,
    ) -> None:
        self._worker = worker
        self.registry = CollectorRegistry()
        self.registry.register(_Replicas(replicas))
        self.requests = Counter(
            "voxcli_requests", "Speech requests by outcome.", ("outcome",), registry=self.registry
        )
        for outcome in OUTCOMES:
            self.requests.labels(outcome)
        self._audio = self._counter("voxcli_audio_seconds", "Audio delivered, in seconds.")
        self._underruns = self._counter(
            "voxcli_underruns", "Streams whose player would have run dry once or more."
        )
        self._underrun_s = self._counter(
            "voxcli_underrun_seconds", "How long these players would have been without samples."
        )
        self._pauses = self._counter(
            "voxcli_pauses", "Times that a stream was paused because its client read too slowly."
        )
        restarts = self._counter("voxcli_restarts", "Fresh processes after a fault of the engine.")
        restarts.inc(num_restarts)
        self._ttfa = self._histogram(
            "voxcli_ttfa_seconds", "Request to first samples, in seconds.", TTFA_BUCKETS
        )
        self._rtf = self._histogram("voxcli_rtf", "Wall seconds a second of audio.", RTF_BUCKETS)
        self._gauge("voxcli_ready", "1 when speech can be asked for.", self._is_ready)
        self._gauge("voxcli_streams", "Utterances being spoken.", lambda: worker.num_running)
        self._gauge("voxcli_queue", "Utterances that wait.", lambda: worker.num_waiting)
        self._gauge(
            "voxcli_websockets", "WebSockets that are open.", lambda: live.num_taken if live else 0
        )
        self._gauge(
            "voxcli_settings",
            "Settings of the model spoken at once; streams of different ones take turns.",
            lambda: worker.engine.num_settings(),
        )
        self._gauge("voxcli_graph_captures", "CUDA graphs captured so far.", self._num_captures)
        memory = Gauge(
            "voxcli_gpu_memory_bytes", "GPU memory of this process.", ("kind",),
            registry=self.registry,
        )  # fmt: skip
        for kind in MEMORY:
            memory.labels(kind).set_function(lambda kind=kind: self._memory(kind))  # type: ignore[misc]

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self.registry)

    def _gauge(self, name: str, text: str, function: Callable[[], float]) -> None:
        Gauge(name, text, registry=self.registry).set_function(function)

    def _is_ready(self) -> float:
        return float(self._worker.condition is State.READY)

    def _num_captures(self) -> float:
        return self._worker.engine.setup.num_captures if self._is_ready() else 0

    def _memory(self, kind: str) -> float:
        return self._worker.engine.card_memory().get(kind, 0.0)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def ender(self, listener: Listener) -> Callable[[str], None]:
        """What a response calls with its outcome when it ends."""
        return lambda outcome: self._end(outcome, listener)

    @contextmanager
    def counted(
        self, listener: Listener, is_cut: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """Count how what the block says goes.

        Args:
            is_cut: whether a block that is cancelled is, since its client took it back.
        """
        outcome = "gone"
        try:
            yield
            outcome = "ok"
        except VoxError as err:
            outcome = outcome_of(err)
            raise
        except TimeoutError:  # the client takes nothing
            outcome = "stalled"
            raise
        except asyncio.CancelledError:
            outcome = "cancelled" if is_cut() else "gone"
            raise
        finally:
            self._end(outcome, listener)

    def _end(self, outcome: str, listener: Listener) -> None:
        self.requests.labels(outcome).inc()
        self._pauses.inc(listener.num_pauses)
        self._audio.inc(listener.audio_s)
        if listener.ttfa_s is not None:
            self._ttfa.observe(listener.ttfa_s)
        if listener.underrun_s > 0:
            self._underruns.inc()
            self._underrun_s.inc(listener.underrun_s)
        if listener.wall_s is not None and listener.audio_s > 0:
            self._rtf.observe(listener.wall_s / listener.audio_s)


class _Replicas(Collector):
    """The numbers of each replica, where there are some."""

    def __init__(self, rows: Callable[[], list[ReplicaRow]]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        rows = self._rows()
        if not rows:
            return
        for kind, name, text, value in _OF_A_REPLICA:
            metric = kind(f"voxcli_replica_{name}", text, labels=("replica",))
            for row in rows:
                metric.add_metric((row.name,), value(row))
            yield metric


_OF_A_REPLICA: tuple[tuple[Any, str, str, Callable[[ReplicaRow], float]], ...] = (
    (GaugeMetricFamily, "ready", "1 when it can speak.", lambda row: row.status == "ready"),
    (GaugeMetricFamily, "streams", "Utterances that it speaks.", lambda row: row.streams),
    (CounterMetricFamily, "rows", "Utterances that it spoke.", lambda row: row.rows),
    (CounterMetricFamily, "audio_seconds", "Audio that it made.", lambda row: row.audio_s),
    (CounterMetricFamily, "restarts", "Times it was started again.", lambda row: row.restarts),
)
