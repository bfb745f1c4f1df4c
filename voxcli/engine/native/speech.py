"""One utterance as requests of the native engine: prompts of its model, and what they continue."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from voxcli.audio.joins import fade
from voxcli.audio.resample import resample
from voxcli.engine.native.request import Request
from voxcli.engine.speech import SegmentedSpeech
from voxcli.models.base import ArrayModel, SpeechModel
from voxcli.models.data import ModelInfo, PromptParts
from voxcli.plan import Plan
from voxcli.utterance import FinishReason, Use

MAX_CARRIED_S = 10.0  # a longer segment is not continued: its prompt would take the room of speech
START_S = 0.005  # a vocoder with nothing behind it begins with 1 ms of noise, at -43 dBFS

Arrays = Mapping[str, np.ndarray]


class NativeSpeech(SegmentedSpeech[Request]):
    """See `SegmentedSpeech`.

    Args:
        model: whose prompts and rates.
        reference, prompt: arrays of the encodings of the plan's recordings.
    """

    def __init__(
        self,
        plan: Plan,
        model: SpeechModel | ArrayModel,
        *,
        is_live: bool,
        started_s: float,
        reference: Arrays | None = None,
        prompt: Arrays | None = None,
    ) -> None:
        self._model = model
        self._info: ModelInfo = model.info
        self._reference = reference
        # transcript and arrays of the speech that the next segment continues
        self._continued = (plan.prompt_text, prompt)
        self._parameters = model.family.parameters_of(plan.parameters)
        super().__init__(
            plan, self._info.sample_rate, self._info.frame_s,
            is_live=is_live, started_s=started_s, min_frames=self._info.min_frames,
        )  # fmt: skip

    def _make_request(self, text: str, seed: int, max_frames: int) -> Request:
        plan, info = self.plan, self._info
        prompt_text, prompt = self._continued
        return Request(
            prompt=self._model.make_prompt(
                PromptParts(
                    text=text,
                    language=plan.text.language,
                    voice=plan.utterance.voice,
                    style=plan.utterance.style,
                    reference=self._reference,
                    prompt=prompt,
                    prompt_text=prompt_text,
                    parameters=self._parameters,
                )
            ),
            seed=seed,
            parameters=self._parameters,
            key=self._model.family.graph_key(self._parameters),
            max_frames=max_frames,
            min_frames=info.min_frames,
            first_chunk=info.first_chunk,
            chunk=info.chunk,
            is_live=self.is_live,
        )

    def _prompt_text(self, index: int) -> str:
        """See the base; an end without a mark is said like a full stop: else words came twice."""
        text = super()._prompt_text(index)
        return f"{text}." if text[-1].isascii() and text[-1].isalnum() else text

    def accept(
        self, request: Request, samples: np.ndarray, reason: FinishReason | None
    ) -> Request | None:
        """See the base; speech rises from silence."""
        if not self._runs[self._by_request[request]].chunks:
            samples = fade(samples, self.sample_rate, in_s=START_S, out_s=0.0)
        return super().accept(request, samples, reason)

    def _carry(self, text: str, samples: np.ndarray) -> None:
        """See the base; a part of a segment is not carried, since it would have no transcript."""
        if len(samples) > MAX_CARRIED_S * self.sample_rate:
            return
        samples = resample(samples, self.sample_rate, self._info.reference_sample_rate)
        self._continued = (text, self._model.encode_recording(samples, Use.PROMPT))
