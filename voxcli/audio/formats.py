"""Output formats: what a suffix means, which bit depths and sample rates it takes, who encodes it.

Knows nothing about writing; imports no audio library, so a wrong suffix is refused in milliseconds.
The rate rule: a rate the user asked for is used as it is or refused with the rates that would work;
the model's own rate is resampled silently to the next rate the format takes.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import PurePath

from voxcli.errors import OutputError, UsageError, nearest

MIN_RATE = 8_000
MAX_RATE = 192_000  # NOTE: libsndfile's Vorbis encoder crashes the process at 400 kHz

MP3_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
AAC_RATES = (*MP3_RATES, 64_000, 88_200, 96_000)
# ffmpeg, and so most players, decodes the short blocks of mp3 wrongly here: 5 dB more error.
MP3_RATES_BETTER_AVOIDED = (24_000,)
WMA_RATES = (8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000)

BIT_DEPTHS = ("8", "16", "24", "32f")
STREAM_FORMATS = ("wav", "raw")  # what a pipe can be given


@dataclass(frozen=True)
class AudioFormat:
    """One way to store audio.

    Attributes:
        name: what the user types, also the suffix without its dot.
        encoder: "wav" (ours), "sndfile" (libsndfile) or "ffmpeg".
        container: the encoder's own name for the file format.
        codec: the encoder's own name for the coding; set by `bits` for integer formats.
        bits: chosen depth, one of `depths`; None for formats that have none.
        depths: depths the format can store, default first.
        rates: sample rates in Hz it takes; empty means any from `MIN_RATE` to `MAX_RATE`.
        avoided_rates: those of them that are taken only when asked for.
        options: further words for ffmpeg.
    """

    name: str
    encoder: str
    container: str
    codec: str = ""
    bits: str | None = None
    depths: tuple[str, ...] = ()
    rates: tuple[int, ...] = ()
    avoided_rates: tuple[int, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def has_marks(self) -> bool:
        """Whether a file of it can say where chapters begin, and show a cover."""
        return self.container == "ipod"

    @property
    def suffix(self) -> str:
        return f".{self.name}"

    def takes_rate(self, rate: int) -> bool:
        if self.rates:
            return rate in self.rates
        return MIN_RATE <= rate <= MAX_RATE

    def choose_rate(self, source_rate: int, asked: int | None = None) -> int:
        """The rate the file gets.

        Raises:
            UsageError: the asked rate is one this format cannot store.
        """
        if asked is not None:
            if not self.takes_rate(asked):
                raise UsageError(f"{self.name} cannot store {asked} Hz", hint=self._rates_hint())
            return asked
        if self.takes_rate(source_rate) and source_rate not in self.avoided_rates:
            return source_rate
        rates = sorted(set(self.rates) - set(self.avoided_rates)) or [MIN_RATE, MAX_RATE]
        return next((rate for rate in rates if rate >= source_rate), rates[-1])

    def _rates_hint(self) -> str:
        if self.rates:
            return f"use one of {', '.join(str(rate) for rate in sorted(self.rates))}"
        return f"use {MIN_RATE} to {MAX_RATE} Hz"


_FORMATS = (
    AudioFormat("wav", "wav", "WAV", depths=("16", "8", "24", "32f")),
    AudioFormat("flac", "sndfile", "FLAC", depths=("16", "24")),
    AudioFormat(
        "mp3",
        "sndfile",
        "MP3",
        codec="MPEG_LAYER_III",
        rates=MP3_RATES,
        avoided_rates=MP3_RATES_BETTER_AVOIDED,
    ),
    AudioFormat("ogg", "sndfile", "OGG", codec="VORBIS"),
    AudioFormat("opus", "sndfile", "OGG", codec="OPUS", rates=OPUS_RATES),
    AudioFormat("m4a", "ffmpeg", "ipod", codec="aac", rates=AAC_RATES),
    AudioFormat(
        "m4b",
        "ffmpeg",
        "ipod",
        codec="aac",
        rates=AAC_RATES,
        options=("-brand", "M4B ", "-movflags", "+faststart"),
    ),
    AudioFormat("aac", "ffmpeg", "adts", codec="aac", rates=AAC_RATES),
    AudioFormat("wma", "ffmpeg", "asf", codec="wmav2", rates=WMA_RATES),
)
FORMATS = {entry.name: entry for entry in _FORMATS}


def resolve_format(target: str | PurePath, bits: str | int | None = None) -> AudioFormat:
    """The format of a path (`a/b.flac`), a suffix (`.flac`) or a name (`flac`).

    Args:
        target: only its last suffix counts; upper case is fine.
        bits: "8", "16", "24" or "32f"; None means the format's default.

    Raises:
        UsageError: unknown suffix, or a depth the format does not have.
        OutputError: the encoder for it is not on this machine.
    """
    name = _format_name(str(target))
    known = ", ".join(FORMATS)
    if name not in FORMATS:
        hint = f"{nearest(name, FORMATS) if name else ''}known formats: {known}"
        what = f"unknown audio format '.{name}'" if name else f"'{target}' has no audio suffix"
        raise UsageError(what, hint=hint)
    chosen = _with_bits(FORMATS[name], bits)
    _require_encoder(chosen)
    return chosen


def _format_name(target: str) -> str:
    path = PurePath(target)
    if path.suffix:
        return path.suffix[1:].lower()
    name = target.lower().lstrip(".")
    is_bare = path.name == target and (target.startswith(".") or name in FORMATS)
    return name if is_bare else ""


def _with_bits(entry: AudioFormat, bits: str | int | None) -> AudioFormat:
    if not entry.depths:
        if bits is not None:
            raise UsageError(
                f"{entry.name} has no bit depth, but --bits is {bits}",
                hint="leave --bits out, or write wav or flac",
            )
        return entry
    depth = entry.depths[0] if bits is None else str(bits).lower()
    if depth not in entry.depths:
        depths = " or ".join(sorted(entry.depths, key=BIT_DEPTHS.index))
        raise UsageError(f"--bits is '{bits}'", hint=f"{entry.name} can have {depths}")
    codec = f"PCM_{depth}" if entry.encoder == "sndfile" else entry.codec
    return replace(entry, codec=codec, bits=depth)


def has_ffmpeg() -> bool:
    """Whether both programs are on the search path; they come together."""
    return shutil.which("ffmpeg") is not None and shutil.which("ffprobe") is not None


def _require_encoder(entry: AudioFormat) -> None:
    if entry.encoder == "ffmpeg" and not has_ffmpeg():
        raise OutputError(
            f"{entry.name} needs ffmpeg and ffprobe, which are not installed",
            hint="install ffmpeg, or write wav, flac, mp3, ogg or opus",
        )
    if entry.encoder == "sndfile" and not _sndfile_has(entry):
        raise OutputError(
            f"this machine's libsndfile cannot write {entry.name}",
            hint="upgrade it (pip install -U soundfile), or write wav",
        )


def _sndfile_has(entry: AudioFormat) -> bool:
    import soundfile  # here, not above: 30 ms that a wav or a wrong suffix need not pay

    return entry.codec in soundfile.available_subtypes(entry.container)
