"""A stand-in for the package vllm_omni 0.26: the shapes that its AsyncOmni takes and gives.

`AsyncOmni.script` says what becomes of a request by a word in its text. A row of n tokens of text
makes 2 n frames, each a swell of tone that the output guard takes for speech.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from vllm.sampling_params import RequestOutputKind, SamplingParams

EVERY = 3  # frames in a message


class OmniEngineDeadError(RuntimeError):
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


@dataclass
class AsyncOmni:
    """See the module; positional arguments are dropped, as in 0.26.

    Attributes:
        made: every one that was made, the newest last.
        rate: Hz of the speech; a frame is 0.16 s.
    """

    model: str = ""
    deploy_config: str = ""
    trust_remote_code: bool | None = None
    errored: bool = False
    requests: list[SimpleNamespace] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    is_shut: bool = False
    made: ClassVar[list[AsyncOmni]] = []
    rate: ClassVar[int] = 48_000
    most_running: int = 0

    def __post_init__(self) -> None:
        AsyncOmni.made.append(self)
        config = SimpleNamespace(audio_vae_config={}, patch_size=4, talker_config=SimpleNamespace())
        stage = SimpleNamespace(model_config=SimpleNamespace(hf_config=config))
        self.engine = SimpleNamespace(stage_vllm_configs=[stage])
        self.default_sampling_params_list = [SamplingParams(max_tokens=4096, seed=42)]
        self.loop = asyncio.get_running_loop()

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
        assert request_id not in self.running, "ids are unique"
        assert output_modalities == ["audio"]
        assert sampling_params_list is not None
        params = sampling_params_list[0]
        assert params is not self.default_sampling_params_list[0], "the defaults are shared"
        assert params.output_kind is RequestOutputKind.DELTA
        assert params.stop_token_ids == [1], "made from nothing"
        information = prompt["additional_information"]
        text = information["text"]
        request = SimpleNamespace(
            id=request_id, text=text, params=copy.copy(params), information=information
        )
        self.requests.append(request)
        if self.errored:
            await asyncio.Event().wait()  # as 0.26: nobody ever answers
        self.running.add(request_id)
        self.most_running = max(self.most_running, len(self.running))
        try:
            async for output in self._speak(request):
                yield output
        finally:
            self.running.discard(request_id)

    async def _speak(self, request: Any) -> AsyncIterator[Output]:
        if "Odd" in request.text:
            raise RuntimeError("request error\nwith a second line")
        num_frames = min(max(4, -(-len(request.text) // 2)), request.params.max_tokens)
        reason = "length" if num_frames == request.params.max_tokens else "stop"
        yield Output(request.id, [SimpleNamespace(token_ids=[], finish_reason=None)], False)
        for first in range(0, num_frames, EVERY):
            await asyncio.sleep(0)
            if "Fatal" in request.text:
                self.errored = True
                raise OmniEngineDeadError("EngineCore encountered an issue.")
            last = min(first + EVERY, num_frames)
            is_end = last == num_frames
            audio: Any = torch.cat([_frame(request, n, self.rate) for n in range(first, last)])
            if "Silent" in request.text and len(self.requests) < 2:
                audio = torch.zeros_like(audio)
            made = SimpleNamespace(
                token_ids=list(range(first, last)),
                finish_reason=reason if is_end else None,
                multimodal_output=Payload(
                    {
                        "audio": [audio[:100], audio[100:]] if is_end else audio,
                        "sr": [torch.tensor(self.rate)],
                    }
                ),
            )
            yield Output(request.id, [made], is_end)

    async def abort(self, request_id: str) -> None:
        raise AssertionError("in 0.26 the generator would then wait for ever")

    def shutdown(self, timeout: float | None = None) -> None:
        assert not self.running, "generators end before the engine"
        self.is_shut = True


def _frame(request: Any, number: int, rate: int) -> torch.Tensor:
    length = round(0.16 * rate)
    time = (np.arange(length) + number * length) / rate
    pitch = 150 + request.params.seed % 50
    swell = np.sin(np.pi * np.arange(length) / length) ** 2
    return torch.from_numpy((0.3 * swell * np.sin(2 * np.pi * pitch * time)).astype(np.float32))
