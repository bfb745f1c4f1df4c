"""Engines on a replaying server, and the calls they make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import numpy as np
from needs import PATIENCE_S
from replayed import SPEECH, Answer, Replay, answer, as_json

from voxcli.engine.calls import LoopThread, Piece, SegmentCall
from voxcli.engine.openai.engine import OpenAIEngine, open_server
from voxcli.engine.openai.transport import Limits
from voxcli.utterance import Recording, Utterance

VOXCPM2 = "openbmb/VoxCPM2"
COUNTED = np.arange(48, dtype=np.float32) / 32768  # what every file's audio is
QUICK = Limits(first_s=PATIENCE_S, silence_s=PATIENCE_S)


def served(
    model: str = VOXCPM2, version: str = "0.30.0", owner: str = "vllm", **row: Any
) -> dict[tuple[str, str], Answer]:
    """What a server with one model answers, without its speech."""
    rows = [{"id": model, "object": "model", "owned_by": owner, "root": model, **row}]
    return {
        ("GET", "/v1/models"): as_json({"object": "list", "data": rows}),
        ("GET", "/version"): as_json({"version": version}),
        ("GET", "/v1/audio/voices"): answer("voices_list"),
        ("GET", "/health"): answer("health_ok"),
    }


@contextmanager
def speaking(
    *speech: Answer,
    limits: Limits = QUICK,
    wanted: str | None = None,
    api_key: str | None = None,
    answers: dict[tuple[str, str], Any] | None = None,
) -> Iterator[tuple[OpenAIEngine, Replay]]:
    """An engine on a server that gives these answers to requests for speech."""
    found = {**(served() if answers is None else answers), SPEECH: speech}
    with Replay(found) as replay, LoopThread("client") as loop:
        engine = open_server(replay.url, wanted, api_key, loop, limits=limits)
        assert engine is not None
        with engine:
            yield engine, replay


def call(engine: OpenAIEngine, max_frames: int = 100, **given: Any) -> SegmentCall:
    """One segment of an utterance."""
    plan = engine.plan(Utterance(**{"text": "Hello there.", **given}))
    return SegmentCall(plan, plan.text.segments[0].text, plan.seed, max_frames, is_live=False)


def clip(seconds: float, text: str = "", rate: int = 24_000) -> Recording:
    """A recording of something."""
    samples = np.sin(np.arange(round(seconds * rate)) / 20).astype(np.float32) / 2
    return Recording(samples, rate, text)


def pieces(engine: OpenAIEngine, asked: SegmentCall) -> list[Piece]:
    """What a call brings."""

    async def collect() -> list[Piece]:
        async with aclosing(engine.speak(asked)) as found:
            return [piece async for piece in found]

    return engine._loop.run(collect(), PATIENCE_S)


def heard(found: list[Piece]) -> np.ndarray:
    return np.concatenate([piece.samples for piece in found])
