"""Qwen3-TTS as vLLM-Omni serves it: what each variant's request can carry there. No torch.

How the first code of a frame is drawn can be said in `extra_params`; the code predictor's draw
cannot. A voice is heard in one recording, with its transcript or by its sound alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from voxcli.errors import UsageError
from voxcli.models.base import ModelFacts
from voxcli.models.qwen3_tts.names import BASE, CUSTOM_VOICE, LANGUAGES, VOICE_DESIGN
from voxcli.models.served import Fields, ServedModel
from voxcli.parameters import Parameter, Values
from voxcli.utterance import Mode, Utterance

SAMPLE_RATE = 24_000  # Hz, of the speech and of what it hears
FRAME_S = 0.08
TASKS = {CUSTOM_VOICE: "CustomVoice", VOICE_DESIGN: "VoiceDesign", BASE: "Base"}
MODES = {
    CUSTOM_VOICE: (Mode.ZERO_SHOT,),
    VOICE_DESIGN: (Mode.ZERO_SHOT, Mode.STYLE),
    BASE: (Mode.REFERENCE, Mode.CONTINUATION),
}
SETTABLE = ("temperature", "top_k", "top_p")
MAX_STYLE = 500  # characters, which a server takes unless it was told otherwise


@dataclass(frozen=True)
class _Variant:
    kind: str

    def fields(self, utterance: Utterance, text: str, language: str, parameters: Values) -> Fields:
        found: Fields = {"input": text, "task_type": TASKS[self.kind]}
        if name := LANGUAGES.get(language):
            found["language"] = name.title()
        if style := utterance.style.strip():
            found["instructions"] = style
        if utterance.mode is Mode.REFERENCE:
            found["x_vector_only_mode"] = True
        if parameters:
            found["extra_params"] = dict(parameters)
        return found

    def check(self, utterance: Utterance) -> Utterance:
        style = utterance.style.strip()
        if self.kind == VOICE_DESIGN and not style:
            raise UsageError("this model makes a voice from words", hint="give --style")
        if len(style) > MAX_STYLE:
            raise UsageError(
                f"the style has {len(style)} characters", hint=f"give at most {MAX_STYLE}"
            )
        return utterance


def served(name: str, family: str, declaration: tuple[Parameter, ...]) -> ServedModel | None:
    """As a server names it; None where the name does not say which variant it is."""
    short = name.lower().replace("_", "-")
    kind = next((kind for kind, task in TASKS.items() if short.endswith(f"-{task.lower()}")), None)
    if kind is None:
        return None
    modes = MODES[kind]
    if kind == CUSTOM_VOICE and "0.6b" not in short:
        modes = (*modes, Mode.STYLE)
    variant = _Variant(kind)
    return ServedModel(
        ModelFacts(
            family,
            SAMPLE_RATE,
            SAMPLE_RATE,
            tuple(each for each in declaration if each.name in SETTABLE),
            tuple(LANGUAGES),
            modes,
        ),
        FRAME_S,
        variant.fields,
        tokens_unspoken=1,  # codes come with the step after their token
        seeds_since=(0, 24),
        check=variant.check,
    )
