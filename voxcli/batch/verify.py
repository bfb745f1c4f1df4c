"""Did the speech say the text? Heard by Whisper, compared word by word; a judge for `run.py`.

Needs the packages of the extra `asr`. Opens no network connection: the model must be on this
machine. Whisper itself errs on names and on very short texts, so the threshold is a share of words
and the best take is not searched for: the first below it is kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from voxcli.audio.resample import Samples, resample
from voxcli.audio.transcribe import RATE, local_whisper
from voxcli.batch.takes import Take, Verdict, next_take
from voxcli.errors import ModelNotFoundError, SynthesisError
from voxcli.extras import missing
from voxcli.text import normalise

UNSPACED = frozenset({"zh", "ja", "th", "lo", "km", "my"})  # compared by character

Hear = Callable[[Samples, int, str], str]


class WordCheck:
    """Asks for another take until few enough words are wrong.

    Args:
        hear: samples, rate and language to the words understood.
        threshold: share of wrong words that is still fine.
        retries: further takes.
    """

    def __init__(self, hear: Hear, threshold: float, retries: int) -> None:
        self._hear = hear
        self._threshold = threshold
        self._retries = retries
        self._lock = Lock()  # one listener, two writer threads

    def __call__(self, take: Take) -> Verdict:
        """Judge a take.

        Raises:
            SynthesisError: still too many wrong words after the last retry.
        """
        with self._lock:
            heard = self._hear(take.samples, take.sample_rate, take.language)
        wer = word_error_rate(take.text, heard, take.language)
        facts = {"wer": round(wer, 4), "heard": heard}
        if wer <= self._threshold:
            return Verdict(take.samples, facts)
        reason = f"word error rate {wer:.0%} is above {self._threshold:.0%}; heard: '{heard}'"
        if take.number > self._retries:
            raise SynthesisError(reason, hint="try another --seed", attempts=take.number)
        return Verdict(take.samples, facts, next_take(take), reason)


def word_error_rate(text: str, heard: str, language: str) -> float:
    """Substituted, missing and extra words / words of the text."""
    wanted, found = _words(text, language), _words(heard, language)
    return _distance(wanted, found) / max(1, len(wanted))


def _words(text: str, language: str) -> list[str]:
    """Words as they are said; both sides are written out the same way."""
    said = normalise(text, language).text
    folded = unicodedata.normalize("NFKC", said).casefold().replace("’", "'")
    if language in UNSPACED:
        return [char for char in folded if char.isalnum()]
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", folded)


def _distance(wanted: Sequence[str], found: Sequence[str]) -> int:
    """Levenshtein's, one row at a time."""
    costs = list(range(len(found) + 1))
    for i, word in enumerate(wanted, start=1):
        above, costs[0] = costs[0], i
        for j, other in enumerate(found, start=1):
            best = min(costs[j] + 1, costs[j - 1] + 1, above + (word != other))
            above, costs[j] = costs[j], best
    return costs[-1]


def load_whisper(model: str, threads: int = 0) -> Hear:
    """A listener from a folder or a model name that faster-whisper has on this machine.

    Raises:
        MissingPackageError: faster-whisper is not installed.
        ModelNotFoundError: the model is not here.
    """
    is_folder = Path(model).is_dir()
    try:
        whisper = local_whisper(model, threads=threads)
    except ImportError as err:
        raise missing("faster_whisper", "'--verify'") from err
    except (RuntimeError, OSError, ValueError) as err:
        what = (
            f"{model} holds no faster-whisper model"
            if is_folder
            else (f"the Whisper model '{model}' is not on this machine")
        )
        raise ModelNotFoundError(
            what,
            hint="download one where there is network, such as 'hf download "
            "Systran/faster-whisper-base --local-dir whisper', and give --verify-model whisper",
        ) from err

    def hear(samples: Samples, rate: int, language: str) -> str:
        segments, _ = whisper.transcribe(
            resample(samples, rate, RATE), language=language, beam_size=5, temperature=0.0,
            condition_on_previous_text=False,
        )  # fmt: skip
        return " ".join(segment.text.strip() for segment in segments)

    return hear
