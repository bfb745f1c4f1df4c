"""What is said in a recording, by faster-whisper (extra `asr`), from files on this machine alone.

Knows nothing about voices; opens no network connection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from voxcli.audio.resample import Samples, resample
from voxcli.errors import RecordingError, UsageError
from voxcli.extras import require

DEFAULT_MODEL = "base"
RATE = 16_000  # Hz, of every Whisper model


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
    from faster_whisper.utils import _MODELS as sizes

    try:
        whisper = local_whisper(model, cache_dir=cache_dir)
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


def local_whisper(model: str, *, threads: int = 0, cache_dir: Path | None = None) -> Any:
    """A `WhisperModel` for the CPU from files on this machine alone.

    Args:
        model, cache_dir: as `transcribe`.
        threads: of the CPU; 0 is the package's own choice.

    Raises:
        ImportError: faster-whisper is not installed.
        OSError, ValueError, RuntimeError: the model is not here or not usable.
    """
    from faster_whisper import WhisperModel

    return WhisperModel(
        model,
        device="cpu",
        compute_type="int8",
        cpu_threads=threads,
        local_files_only=True,
        download_root=str(cache_dir) if cache_dir else None,
    )


def check_transcriber() -> None:
    """Raise MissingPackageError unless speech recognition is installed."""
    require("'--ref-text auto'", "faster_whisper")
