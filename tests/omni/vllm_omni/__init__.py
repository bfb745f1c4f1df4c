"""A stand-in for the package vllm_omni 0.26 or 0.30: the shapes that its AsyncOmni takes and gives.

A word in its text says what becomes of a request:

| word | what happens |
|---|---|
| Odd | it alone fails |
| Silent | its first attempt is silent |
| Endless | it stops at its limit |
| Fatal | the engine dies, and whoever is in flight is told |
| Mute | the engine dies, and nobody is told |
| Held | it goes no further than `AsyncOmni.hold_at` messages |

Every other row of n characters makes n / 2 frames, each a swell of tone that the output guard takes
for speech. VoxCPM2's rows are admitted in waves: none while another is being decoded.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.exceptions import EngineDeadError

DIED = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class OmniEngineDeadError(EngineDeadError):
    """The engine is gone."""


class Payload(Mapping[str, Any]):
    """What a message with audio has: a mapping, no dict."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass
class Output:
    request_id: str
    outputs: list[Any]
    finished: bool
    stage_id: int = 0
    replica_id: int = 0


class AsyncOmni:
    """See the module; it prints to stdout when it is made, as whatever it loads might.

    Attributes:
        made: every one that was made, the newest last.
        release: of the package that it stands for.
        rate: Hz of the speech.
        frame_s: seconds of a frame.
        sizes: frames of its messages, again and again; part of a frame too.
        hold_at: messages after which a held row waits for ever.
        is_held: set when one does.
        begins: set when the next one is being made.
        may_begin: it is not ready before.
        failure: what making the next one fails with.
        waves: how many rows were admitted at once, each time.
        requests: all that were begun.
        running: ids of those that have not ended.
    """

    made: ClassVar[list[AsyncOmni]] = []
    release: ClassVar[tuple[int, int]] = (0, 26)
    rate: ClassVar[int] = 48_000
    frame_s: ClassVar[float] = 0.16
    sizes: ClassVar[Sequence[float]] = (3,)
    hold_at: ClassVar[int] = 0
    is_held: ClassVar[threading.Event] = threading.Event()
    begins: ClassVar[threading.Event] = threading.Event()
    may_begin: ClassVar[threading.Event] = threading.Event()
    failure: ClassVar[Exception | None] = None

    def __init__(self, *dropped: Any, model: str = "", **given: Any) -> None:
        print("a banner of the package")
        os.write(1, b"a line of its C code\n")
        self.deploy: dict[str, Any] = json.loads(Path(given["deploy_config"]).read_text("utf-8"))
        cls = AsyncOmni
        cls.begins.set()
        cls.may_begin.wait()
        if cls.failure is not None:
            raise cls.failure
        assert not dropped, "0.26 drops them without a word"
        assert set(given) == {"deploy_config", "trust_remote_code"}, given
        self.model = model
        self.environ = dict(os.environ)
        assert Path(self.deploy["base_config"]).is_file(), "0.26 looks for no bare name"
        config = json.loads((Path(model) / "config.json").read_text("utf-8"))
        self.is_qwen = "talker_config" in config
        talker = SimpleNamespace(codec_language_id={"english": 1}, spk_is_dialect={})
        hf_config = SimpleNamespace(audio_vae_config={}, patch_size=4, talker_config=talker)
        stage = SimpleNamespace(model_config=SimpleNamespace(hf_config=hf_config))
        self.engine = SimpleNamespace(stage_vllm_configs=[stage])
        self.default_sampling_params_list = [
            SamplingParams(max_tokens=4096, seed=None if self.is_qwen else 42)
        ] + [SamplingParams(max_tokens=65536)] * self.is_qwen
        self.loop = asyncio.get_running_loop()
        self.requests: list[SimpleNamespace] = []
        self.running: set[str] = set()
        self.waves: list[int] = []
        self.is_shut = self.is_dead = False
        self._waiting: list[asyncio.Event] = []
        self._num_decoding = 0
        cls.made.append(self)

    @property
    def errored(self) -> bool:
        """In 0.30 only whether its orchestrator has died, which outlives its workers."""
        return self.is_dead and self.release < (0, 30)

    async def check_health(self) -> None:
        if self.is_dead:
            raise EngineDeadError("Stage-0 engine core is dead")

    async def generate(
        self,
        prompt: dict[str, Any],
        sampling_params: Any = None,
        request_id: str = "",
        *,
        sampling_params_list: list[SamplingParams] | None = None,
        output_modalities: list[str] | None = None,
    ) -> AsyncIterator[Output]:
        assert asyncio.get_running_loop() is self.loop, "all calls are on one loop"
        assert not self.is_shut
        assert request_id not in self.running, "ids are unique"
        assert output_modalities == ["audio"]
        assert sampling_params_list is not None
        assert len(sampling_params_list) == len(self.default_sampling_params_list)
        for params in sampling_params_list:
            assert all(params is not each for each in self.default_sampling_params_list), "shared"
            assert params.output_kind is RequestOutputKind.DELTA, "others repeat"
            assert params.stop_token_ids == [1], "made from nothing"
        information = prompt["additional_information"]
        text = information["text"]
        text = text[0] if self.is_qwen else text
        request = SimpleNamespace(
            id=request_id,
            text=text,
            params=copy.copy(sampling_params_list[0]),
            information=information,
            prompt=prompt,
            attempt=sum(each.text == text for each in self.requests),
        )
        self.requests.append(request)
        if self.is_dead:
            await self._answer_of_the_dead()
        self.running.add(request_id)
        admitted = asyncio.Event()
        try:
            await self._admission(admitted)
            async for output in self._speak(request):
                yield output
        finally:
            self.running.discard(request_id)
            self._leave(admitted)

    async def _answer_of_the_dead(self) -> None:
        if self.release >= (0, 30):
            raise RuntimeError("Stage-0 has no live replica")
        await asyncio.Event().wait()  # nobody ever answers

    async def _admission(self, admitted: asyncio.Event) -> None:
        self._waiting.append(admitted)
        if self.is_qwen or not self._num_decoding:
            self._admit()
        await admitted.wait()

    def _admit(self) -> None:
        room = self.deploy["stages"][0]["max_num_seqs"]
        wave, self._waiting = self._waiting[:room], self._waiting[room:]
        if wave:
            self.waves.append(len(wave))
        self._num_decoding += len(wave)
        for admitted in wave:
            admitted.set()

    def _leave(self, admitted: asyncio.Event) -> None:
        if not admitted.is_set():
            self._waiting = [each for each in self._waiting if each is not admitted]
            return
        self._num_decoding -= 1
        if not self._num_decoding:
            self._admit()

    async def _speak(self, request: Any) -> AsyncIterator[Output]:
        if "Odd" in request.text:
            raise RuntimeError("request error\nwith a second line")
        # Qwen3-TTS has the codes of a token a step later, so those of the last one never come
        limit = request.params.max_tokens - int(self.is_qwen)
        num_frames = min(max(4, -(-len(request.text) // 2)), limit)
        if "Endless" in request.text:
            num_frames = limit
        # the last of two stages knows nothing of the first one's limit
        reason = "length" if num_frames == limit and not self.is_qwen else "stop"
        audio = _tone(request, num_frames, round(self.frame_s * self.rate), self.rate)
        if "Silent" in request.text and request.attempt == 0:
            audio = torch.zeros_like(audio)
        yield Output(request.id, [SimpleNamespace(token_ids=[], finish_reason=None)], False)
        for number, (first, last) in enumerate(self._cuts(len(audio))):
            if "Held" in request.text and number == self.hold_at:
                self.is_held.set()
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            if "Fatal" in request.text or "Mute" in request.text:
                self.is_dead = True
            if "Mute" in request.text:
                await asyncio.Event().wait()
            if self.is_dead:
                raise OmniEngineDeadError(DIED)
            is_end = last == len(audio)
            part: Any = audio[first:last]
            part = [part[: len(part) // 2], part[len(part) // 2 :]] if is_end else part
            made = SimpleNamespace(
                token_ids=[0],
                finish_reason=reason if is_end else None,
                multimodal_output=Payload({"audio": part, "sr": [torch.tensor(self.rate)]}),
            )
            yield Output(request.id, [made], is_end, stage_id=int(self.is_qwen))

    def _cuts(self, num_samples: int) -> Iterator[tuple[int, int]]:
        first = 0
        for size in cycle(self.sizes):
            last = min(first + round(size * self.frame_s * self.rate), num_samples)
            yield first, last
            if last == num_samples:
                return
            first = last

    async def abort(self, request_id: str) -> None:
        raise AssertionError("in 0.26 the generator would then wait for ever")

    def shutdown(self, timeout: float | None = None) -> None:
        assert not self.running, "generators end before the engine"
        self.is_shut = True


def _tone(request: Any, num_frames: int, length: int, rate: int) -> torch.Tensor:
    """A swell a frame; its pitch is the seed's."""
    swell = np.tile(np.sin(np.pi * np.arange(length) / length) ** 2, num_frames)
    pitch = 150 + (request.params.seed or 0) % 50
    sound = np.sin(2 * np.pi * pitch * np.arange(num_frames * length) / rate)
    return torch.from_numpy((0.3 * swell * sound).astype(np.float32))
