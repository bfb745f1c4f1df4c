"""A segment as the body of a speech request, in the fields that the server takes."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from voxcli.audio import pcm, wav
from voxcli.engine.calls import SegmentCall
from voxcli.engine.clips import whole_clip
from voxcli.engine.openai.profile import ANY_VOICE, Kind, Profile
from voxcli.models.served import ServedModel
from voxcli.parameters import Parameter
from voxcli.utterance import Mode, Recording, Use, Utterance

MAX_TOKENS = 4096  # that a server lets a request ask for
MAX_CLIPS = 32  # recordings that are kept as text, 1.3 MB for 30 s


class Asker:
    """Bodies for one server. Any thread may use it.

    Args:
        served: what the model's family knows of it; None asks in OpenAI's own fields.
        parameters: that a request may carry.
    """

    def __init__(
        self, profile: Profile, served: ServedModel | None, parameters: Sequence[Parameter]
    ) -> None:
        self._parameters = parameters
        self._profile = profile
        self._served = served
        self._clips: OrderedDict[tuple[str, Use], str] = OrderedDict()
        self._lock = Lock()

    def body(self, call: SegmentCall) -> bytes:
        """JSON in UTF-8; half characters of an argument that was no UTF-8 become "?"."""
        text = json.dumps(self.fields(call), ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8", "replace")

    def fields(self, call: SegmentCall) -> dict[str, Any]:
        """The fields of a request; what the server does not take is not among them."""
        profile, utterance = self._profile, call.plan.utterance
        language, parameters = call.plan.text.language, call.plan.parameters
        found: dict[str, Any] = {"model": profile.model.name, "response_format": "wav"}
        if self._served is not None:
            found |= self._served.fields(utterance, call.text, language, parameters)
            found |= self._recording(call)
        else:
            found["input"] = call.text
            given = utterance.sampling.parameters  # what is left out, the server knows better
            found |= {
                each.name: parameters[each.name]
                for each in self._parameters
                if not given.keys().isdisjoint((each.name, *each.aliases))
            }
            if style := utterance.style.strip():
                found["instructions"] = style
        if voice := self._voice(utterance):
            found["voice"] = voice
        found["seed"] = call.seed
        if self._served is not None:
            found["max_new_tokens"] = max_tokens(call, self._served)
        if profile.kind is not Kind.OTHER:
            found |= {"stream": True, "stream_format": "sse"}
        if profile.kind is Kind.VOXCLI:
            found |= {"language": language, "raw_text": True}  # it is written out already
        return {name: value for name, value in found.items() if name in profile.fields}

    def _voice(self, utterance: Utterance) -> str | None:
        """The name that is sent; None leaves the field out, which is the model's own."""
        if utterance.mode is not Mode.ZERO_SHOT:
            return None
        if utterance.voice not in (None, "default"):
            return utterance.voice
        if self._profile.kind is not Kind.OTHER:
            return None
        return self._profile.voices[0] if self._profile.voices else ANY_VOICE

    def _recording(self, call: SegmentCall) -> dict[str, Any]:
        utterance = call.plan.utterance
        if utterance.prompt is not None:
            clip = self._clip(utterance.prompt, Use.PROMPT)
            return {"ref_audio": clip, "ref_text": call.plan.prompt_text}
        if utterance.reference is not None:
            return {"ref_audio": self._clip(utterance.reference, Use.REFERENCE)}
        return {}

    def _clip(self, recording: Recording, use: Use) -> str:
        """A recording as a data URI; the same one is made once."""
        key = (recording.key, use)
        with self._lock:
            if key in self._clips:
                self._clips.move_to_end(key)
                return self._clips[key]
        assert self._served is not None
        made = data_uri(recording, use, self._served)
        with self._lock:
            self._clips[key] = made
            while len(self._clips) > MAX_CLIPS:
                self._clips.popitem(last=False)
        return made


def max_tokens(call: SegmentCall, served: ServedModel) -> int:
    """The most frames that a server is asked for."""
    return min(served.limit(call.max_frames), MAX_TOKENS)


def data_uri(recording: Recording, use: Use, served: ServedModel) -> str:
    """A recording as the model hears it, with 16 bits a sample."""
    rate = served.facts.reference_sample_rate
    samples = whole_clip(recording, use, rate, served.whole_samples)
    data = wav.wav_header(rate, "16", len(samples)) + pcm.quantise(samples, "16")
    return f"data:audio/wav;base64,{base64.b64encode(data).decode('ascii')}"
