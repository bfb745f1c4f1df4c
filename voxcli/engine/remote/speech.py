"""One utterance that another process speaks: its plan and how far it is. Knows no connection."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from voxcli.text.prepared import PreparedText
from voxcli.utterance import (
    AudioChunk,
    FinishReason,
    Pcm,
    PcmChunk,
    Result,
    SegmentReport,
    Utterance,
)

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class RemotePlan:
    """A plan that the server made; the attributes are those of `voxcli.plan.Plan`."""

    utterance: Utterance
    text: PreparedText
    seed: int
    steps: int
    cfg: float
    estimated_audio_s: float


class RemoteSpeech:
    """What `voxcli.engine.native.speech.Speech` tells of itself, as far as it is known here."""

    def __init__(self, plan: RemotePlan, *, is_live: bool) -> None:
        self.plan = plan
        self.is_live = is_live
        self.is_done = False
        self.ttfa_s: float | None = None
        self.wall_s = 0.0
        self.num_samples = 0
        self.reports: tuple[SegmentReport, ...] = ()
        self.sample_rate = 0
        self._started = time.perf_counter()

    def take(self, header: dict[str, Any], payload: bytes) -> AudioChunk:
        """A chunk from its frame."""
        import numpy as np

        samples = np.frombuffer(payload, "<f4").astype(np.float32, copy=False)
        self._count(header["sample_rate"], len(samples))
        return AudioChunk(samples, self.sample_rate, header["segment"], is_last=header["is_last"])

    def take_pcm(self, header: dict[str, Any], payload: bytes) -> PcmChunk:
        """The same where integers were asked for."""
        chunk = PcmChunk(Pcm(payload), header["sample_rate"], header["is_last"])
        self._count(chunk.sample_rate, len(chunk.samples))
        return chunk

    def _count(self, sample_rate: int, num_samples: int) -> None:
        self.sample_rate = sample_rate
        self.wall_s = time.perf_counter() - self._started
        if self.ttfa_s is None and num_samples:
            self.ttfa_s = self.wall_s
        self.num_samples += num_samples

    def finish(self, reports: list[dict[str, Any]], ttfa_s: float) -> None:
        """The server's account of the segments, and of the first samples where they were held."""
        if not self.is_live:
            self.ttfa_s = ttfa_s
        self.reports = tuple(
            SegmentReport(
                **{
                    **report,
                    "finish_reason": FinishReason(report["finish_reason"]),
                    "warnings": tuple(report["warnings"]),
                    "refused": tuple(report["refused"]),
                }
            )
            for report in reports
        )
        self.is_done = True

    def result(self, samples: np.ndarray) -> Result:
        """The finished utterance, with all samples that came."""
        assert self.is_done
        return Result(
            utterance=self.plan.utterance,
            samples=samples,
            sample_rate=self.sample_rate,
            seed=self.plan.seed,
            segments=self.reports,
            ttfa_s=self.ttfa_s or 0.0,
            wall_s=self.wall_s,
        )
