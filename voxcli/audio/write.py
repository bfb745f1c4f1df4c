"""Writing speech to a file that is either complete and sound, or not there.

`check_output` is the preflight before a model loads; `AudioWriter` takes chunks as they come. The
samples go to a hidden file beside the target, which gets its name only after it was read back.
Knows nothing about models or the terminal. For stdout see `stream_out.py`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from voxcli.audio import encode, files
from voxcli.audio.formats import FORMATS, AudioFormat, resolve_format
from voxcli.audio.held import HeldFile, sweep
from voxcli.audio.names import free_name
from voxcli.audio.pcm import as_mono
from voxcli.audio.resample import Resampler, Samples
from voxcli.audio.stream_out import ReaderClosedError, StreamWriter, open_stdout
from voxcli.audio.tags import Tags
from voxcli.errors import OutputError, OutputExistsError, SynthesisError, UsageError

__all__ = [
    "AudioWriter",
    "ReaderClosedError",
    "StreamWriter",
    "WrittenAudio",
    "check_output",
    "free_name",
    "open_stdout",
]

STDOUT_HINT = "give the name of a file; 'voxcli speak -o -' writes to stdout, for pipes and devices"
SILENT_DBFS = -60.0  # RMS over the whole file; the noise floor of a quiet room recording


@dataclass(frozen=True)
class WrittenAudio:
    """A file as it was read back before it got its name.

    Attributes:
        num_frames: samples at `sample_rate`, as handed to the encoder.
        peak: of the decoded samples, full scale is 1.0 (lossy formats may exceed it slightly).
        rms_dbfs: level over the whole file.
    """

    path: Path
    sample_rate: int
    num_frames: int
    peak: float
    rms_dbfs: float

    @property
    def audio_s(self) -> float:
        return self.num_frames / self.sample_rate


def check_output(
    path: str | Path,
    *,
    overwrite: bool = False,
    bits: str | int | None = None,
    rate: int | None = None,
    made: Path | None = None,
) -> AudioFormat:
    """Refuse before any work what could not be written after it; leaves nothing behind.

    Args:
        rate: the sample rate the user asked for, if any.
        made: a folder that will have been made, if it is not there.

    Raises:
        UsageError: unknown suffix, or a depth or rate the format cannot store.
        OutputExistsError: the file is there and `overwrite` is off.
        OutputError: a folder, no such folder, not writable, or no encoder on this machine.
    """
    target = Path(path)
    if not str(path) or "\0" in str(path):
        message = f"the output path {str(path)!r} is not a file name"
        raise UsageError(message, hint="give -o NAME.wav")
    try:
        if target.is_dir() or str(path).endswith(("/", os.sep)):
            raise files.folder_error(path, target / "out.wav")
        files.check_regular(target, STDOUT_HINT)
        _check_name(target)
        audio_format = resolve_format(target, bits)
        if rate is not None:
            audio_format.choose_rate(rate, rate)
        if files.is_to_come(target.parent, made):
            return audio_format
        files.check_folder(target.parent)
        if os.path.lexists(target):
            _check_existing(target, overwrite=overwrite)
        files.probe_folder(_final_path(target))
    except OSError as err:
        raise files.output_error(err, target) from err
    return audio_format


def _check_name(target: Path) -> None:
    """Refuse `.wav`, which would be a hidden file without a format."""
    if target.stem.strip(". ") and target.name.lstrip(".").lower() not in FORMATS:
        return
    raise UsageError(
        f"the output path '{target}' has no name before its suffix",
        hint=f"give -o {target.with_name('NAME.' + target.name.lstrip('. '))}",
    )


def _check_existing(target: Path, *, overwrite: bool) -> None:
    if not overwrite:
        raise files.exists_error(target)


def _final_path(target: Path) -> Path:
    """Behind a symbolic link, so that replacing keeps the link; elsewhere the path itself."""
    return target.resolve() if target.is_symlink() else target


class AudioWriter:
    """Writes one mono file from chunks; only `commit` makes it appear.

        with AudioWriter("hello.wav", 48000) as writer:
            for chunk in chunks:
                writer.write(chunk.samples)
            written = writer.commit()

    Leaving the block without `commit`, by an exception, an interrupt or plainly, leaves no file.

    Args:
        path: the final name; its suffix is the format.
        source_rate: rate of the samples that will be written, in Hz.
        rate: rate of the file in Hz; None means the source's, or the next one the format takes.
        bits: "8", "16", "24" or "32f"; None means the format's default (16).
        overwrite: replace a file of that name.
        is_mostly_silent: one sound is enough, such as a word in an hour of a timeline.
        tags: what it says beside its sound, in a format that `has_marks`; marks count samples of
            the file.
        next_path: another name in the same folder, where the program chose `path` and somebody
            else took it meanwhile.
        token: of the hidden name; what its one owner left there, when it was killed, is removed.
    """

    def __init__(
        self,
        path: str | Path,
        source_rate: int,
        *,
        rate: int | None = None,
        bits: str | int | None = None,
        overwrite: bool = False,
        is_mostly_silent: bool = False,
        tags: Tags | None = None,
        next_path: Callable[[], Path] | None = None,
        token: str = "",
    ) -> None:
        self.path = Path(path)
        self.format = resolve_format(self.path, bits)
        self.source_rate = source_rate
        self.sample_rate = self.format.choose_rate(source_rate, rate)
        self.num_frames = 0
        self._overwrite = overwrite
        self._is_mostly_silent = is_mostly_silent
        self._tags = tags if self.format.has_marks else None
        self._next_path = next_path
        self._target = _final_path(self.path) if overwrite else self.path
        self._temp = files.hidden_name(self._target, token)
        self._is_found_again = bool(token)
        self._resampler = Resampler(source_rate, self.sample_rate)
        self._encoder: encode.Encoder | None = None
        self._held: HeldFile | None = None

    def __enter__(self) -> Self:
        try:
            if not self._overwrite and not self._next_path and os.path.lexists(self.path):
                raise files.exists_error(self.path)
            if self._is_found_again:
                files.clear(self._temp)
                files.create(self._temp)
            else:
                sweep(self._target.parent)
                self._held = HeldFile(self._target)
                self._temp = self._held.path
            self._encoder = encode.open_encoder(
                self._temp, self.sample_rate, self.format, self._tags
            )
        except OSError as err:
            error = files.output_error(err, self.path)  # before the space is given back
            self.abort()
            raise error from err
        except BaseException:
            self.abort()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def write(self, samples: Samples) -> None:
        """Append float32 `[S]` at the source rate.

        Raises:
            SynthesisError: a sample is NaN or infinite.
            OutputError: the file system refused; nothing is left behind.
        """
        mono = as_mono(samples)
        if not np.isfinite(mono).all():
            self.abort()
            raise SynthesisError("the generated audio holds NaN or infinite samples")
        self._encode(self._resampler.push(mono))

    def commit(self, tell: Callable[[float], None] = lambda share: None) -> WrittenAudio:
        """Complete, read back, and give the file its name.

        Args:
            tell: which share was read back.

        Raises:
            SynthesisError: there is no audio, or it is silent.
            OutputError: not written in full, or the file system refused.
            OutputExistsError: a file of that name appeared meanwhile.
        """
        self._encode(self._resampler.flush())
        encoder = self._require_open()
        try:
            if self.num_frames == 0:
                raise SynthesisError("no audio was generated, so no file is written")
            encoder.close()
            written = self._validate(tell)
            self._publish()
        except OSError as err:
            raise files.output_error(err, self.path) from err
        finally:
            self.abort()
        return replace(written, path=self.path)

    def abort(self) -> None:
        """Remove what was written so far; always safe, also after `commit`."""
        encoder, self._encoder = self._encoder, None
        try:
            if encoder is not None:
                encoder.discard()
        finally:
            self._temp.unlink(missing_ok=True)
            if self._held is not None:
                self._held.release()

    def _publish(self) -> None:
        while True:
            try:
                return files.publish(self._temp, self._target, overwrite=self._overwrite)
            except OutputExistsError:
                if self._next_path is None:
                    raise
                self.path = self._target = self._next_path()

    def _require_open(self) -> encode.Encoder:
        assert self._encoder is not None, f"writer of {self.path} is not open"
        return self._encoder

    def _encode(self, samples: Samples) -> None:
        encoder = self._require_open()
        try:
            encoder.write(samples)
        except OSError as err:
            error = files.output_error(err, self.path)  # before the space is given back
            self.abort()
            raise error from err
        self.num_frames += len(samples)

    def _validate(self, tell: Callable[[float], None]) -> WrittenAudio:
        found = encode.measure(self._temp, self.format, lambda count: tell(count / self.num_frames))
        slack = encode.FFMPEG_SLACK if self.format.encoder == "ffmpeg" else 0
        if abs(found.num_frames - self.num_frames) > slack or found.sample_rate != self.sample_rate:
            raise OutputError(
                f"{self.path} was not written in full: {found.num_frames} of {self.num_frames} "
                f"samples at {found.sample_rate} Hz",
                hint="check the disk and try again",
            )
        rms_dbfs = 20 * math.log10(max(found.rms, 1e-10))
        level = found.peak if self._is_mostly_silent else found.rms
        if not found.is_finite or level < 10 ** (SILENT_DBFS / 20):
            what = f"silent ({rms_dbfs:.0f} dBFS)" if found.is_finite else "not a number"
            raise SynthesisError(
                f"the generated audio is {what}, so no file is written", hint="try another --seed"
            )
        return WrittenAudio(self.path, self.sample_rate, self.num_frames, found.peak, rms_dbfs)
