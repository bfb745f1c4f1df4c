"""The native engine beside vLLM-Omni in process: the same loads over `SpeechSession` for both.

    python tests/gpu/bench_engines.py native CHECKPOINT 64
    python tests/gpu/bench_engines.py vllm-omni CHECKPOINT 64

Not a test. CHECKPOINT is a folder in the official layout; with RANDOM WEIGHTS, which the guard of
sound would refuse, the numbers are of speed alone. Rows that start together are cut at 4 and at
20 s of audio; then rows of 4 s arrive at random for 8 s. A line of JSON for each load.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from voxcli.config import EngineConfig, SamplingParams
from voxcli.engine import speech
from voxcli.engine.base import SpeechEngine
from voxcli.errors import VoxError
from voxcli.hub import resolve_model
from voxcli.plan import Plan
from voxcli.utterance import Utterance

SHORT = "The quick brown fox jumps over the lazy dog near the river"
LONG = (
    f"{SHORT} bank while the old miller counts his sacks of flour and waits for the evening ferry "
    "that brings letters, newspapers and two dozen oranges from the far side of the water"
)
LOADS = ((SHORT, 4.0), (LONG, 20.0))
ARRIVALS_S, RATES = 8.0, (2, 5, 20)


def open_engine(kind: str, checkpoint: str, num_streams: int) -> SpeechEngine:
    files = resolve_model(checkpoint)
    config = EngineConfig(checkpoint, device="cuda", max_slots=num_streams)
    if kind == "native":
        from voxcli.engine.native.engine import NativeEngine

        return NativeEngine(files, config)
    from voxcli.engine.vllm_omni.engine import VllmOmniEngine

    return VllmOmniEngine(files, config)


def plans_of(engine: SpeechEngine, text: str, audio_s: float, count: int) -> list[Plan]:
    voice = engine.facts.voices[0] if engine.facts.voices else None
    return [
        engine.plan(
            Utterance(
                text,
                language="en",
                voice=voice,
                sampling=SamplingParams(seed=seed, max_seconds=audio_s, retries=0),
            )
        )
        for seed in range(1, count + 1)
    ]


def together(engine: SpeechEngine, plans: Sequence[Plan]) -> dict[str, Any]:
    """All begun at once, and streamed."""
    first_s: dict[object, float] = {}
    num_samples = num_errors = 0
    with engine.session() as session:
        began_s = time.perf_counter()
        for plan in plans:
            session.add(plan)
        while not session.is_idle:
            for owner, event in session.step():
                if isinstance(event, VoxError):
                    num_errors += 1
                    continue
                if len(event.samples):
                    first_s.setdefault(owner, time.perf_counter() - began_s)
                num_samples += len(event.samples)
        took_s = time.perf_counter() - began_s
    audio_s = num_samples / engine.facts.sample_rate
    return {
        "rtf": took_s / max(audio_s / len(plans), 1e-9),
        "audio_s_per_s": audio_s / took_s,
        "num_errors": num_errors,
        **ttfa(list(first_s.values())),
    }


def arriving(engine: SpeechEngine, rate: float) -> dict[str, Any]:
    """So many a second, at random; each one's clock runs from its arrival."""
    draw, at_s = random.Random(5), [0.0]
    while at_s[-1] < ARRIVALS_S:
        at_s.append(at_s[-1] + draw.expovariate(rate))
    todo = list(zip(at_s[1:-1], plans_of(engine, SHORT, 4.0, len(at_s) - 2), strict=True))
    due_s: dict[object, float] = {}
    first_s: dict[object, float] = {}
    is_over = threading.Event()
    with engine.session(num_reserved=1) as session:
        began_s = time.perf_counter()

        def ring(times: Sequence[float]) -> None:
            for each in times:
                if is_over.wait(max(0.0, each - (time.perf_counter() - began_s))):
                    return
                session.wake()

        threading.Thread(target=ring, args=([each for each, _ in todo],), daemon=True).start()
        while todo or not session.is_idle:
            while todo and time.perf_counter() - began_s >= todo[0][0]:
                each_s, plan = todo.pop(0)
                due_s[session.add(plan)] = each_s
            if session.is_idle:
                time.sleep(max(0.0, todo[0][0] - (time.perf_counter() - began_s)) if todo else 0.0)
                continue
            for owner, event in session.step():
                if not isinstance(event, VoxError) and len(event.samples):
                    first_s.setdefault(owner, time.perf_counter() - began_s - due_s[owner])
        is_over.set()
    return {"rate": rate, "num_rows": len(due_s), **ttfa(list(first_s.values()))}


def ttfa(values: list[float]) -> dict[str, float]:
    """p50 and p95 in milliseconds."""
    ordered = sorted(values) or [float("nan")]
    last = len(ordered) - 1
    return {f"ttfa_p{p}_ms": 1e3 * ordered[round(p / 100 * last)] for p in (50, 95)}


def card_mib() -> list[int]:
    """Memory in use on each card."""
    asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return [int(each) for each in found.split()]


def tell(what: str, **values: Any) -> None:
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}
    print(json.dumps({"what": what, **rounded}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kind", choices=["native", "vllm-omni"])
    parser.add_argument("checkpoint", help="a folder in the official layout")
    parser.add_argument("streams", type=int, help="the most streams at once")
    options = parser.parse_args()
    speech.check_audio = lambda *judged: ()  # type: ignore[assignment]
    began_s = time.perf_counter()
    with open_engine(options.kind, options.checkpoint, options.streams) as engine:
        engine.start()
        tell("ready", seconds=time.perf_counter() - began_s, card_mib=card_mib())
        for count in (each for each in (1, 8, 32, 64) if each <= options.streams):
            for text, audio_s in LOADS:
                found = together(engine, plans_of(engine, text, audio_s, count))
                tell("together", streams=count, cut_s=audio_s, **found, card_mib=card_mib())
        for rate in RATES:
            tell("arriving", **arriving(engine, rate))


if __name__ == "__main__":
    main()
