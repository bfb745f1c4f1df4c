"""What is said in a recording, by faster-whisper (extra `asr`), from files on this machine alone.

Knows nothing about voices; opens no network connection.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from voxcli.audio.resample import Samples, resample
from voxcli.errors import RecordingError, UsageError

DEFAULT_MODEL = "base"
RATE = 16_000


def transcribe(
    samples: Samples,
    sample_rate: int,
    *,
    model: str = DEFAULT_MODEL,
    language: str | None = None,
    cache_dir: Path | None = None,
) -> str:
    """The words of a recording.

    Args:
        samples: float32 `[S]`, mono.
        model: a faster-whisper size, a hub id or a folder in CTranslate2's layout.
        language: ISO 639-1; None to detect it.
        cache_dir: the hub cache; None means huggingface_hub's own.

    Raises:
        UsageError: the package or the model is not here.
        RecordingError: no words were heard.
    """
    check_transcriber()
    from faster_whisper import WhisperModel
    from faster_whisper.utils import _MODELS as sizes

    try:
        whisper = WhisperModel(
            model,
            device="cpu",
            compute_type="int8",
            local_files_only=True,
            download_root=str(cache_dir) if cache_dir else None,
        )
    except (OSError, ValueError, RuntimeError) as err:
        at = f" --cache-dir {cache_dir}" if cache_dir else ""
        raise UsageError(
            f"the speech recognition model '{model}' is not on this machine",
            hint=f"run 'hf download {sizes.get(model, model)}{at}', or give the transcript itself",
        ) from err
    heard = resample(samples, sample_rate, RATE)
    segments, _ = whisper.transcribe(heard, language=language, beam_size=5)
    text = " ".join(" ".join(segment.text for segment in segments).split())
    if not text:
        raise RecordingError("no words were recognised in the recording", hint="give --ref-text")
    return text


def check_transcriber() -> None:
    """Raise UsageError unless speech recognition is installed."""
    if find_spec("faster_whisper") is None:
        raise UsageError(
            "'--ref-text auto' needs the package faster-whisper, which is not installed",
            hint="run: pip install 'voxcli[asr]', or give the transcript itself",
        )
