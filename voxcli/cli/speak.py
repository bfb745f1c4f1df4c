"""`voxcli speak`: a text to a file or to stdout."""

from __future__ import annotations

from voxcli.cli import speaking
from voxcli.cli.engine_options import SizedEngineOptions, WarmOptions
from voxcli.cli.options import SpeechOptions, TextSource, grouped
from voxcli.cli.parameter_options import ParameterOptions
from voxcli.cli.speaking import ShowOptions, TargetOptions

EXAMPLES = (
    'voxcli speak "The ferry leaves at noon." -o ferry.wav',
    "voxcli speak 'It costs $1,299.50 until 5:30 p.m.' --dry-run",
    'voxcli speak "The ferry leaves at noon." --voice emma -o emma.mp3 --seed 7',
    "voxcli speak \"Ready. [pause 0.8s] Set. <break time='500ms'/> Go.\" -o go.wav",
    'echo "The ferry leaves at noon." > ferry.txt && voxcli speak --file ferry.txt -o told.flac',
    'voxcli speak "The ferry leaves at noon." -o noon.wav --subtitles noon.srt',
    r"printf 'written,spoken\nnginx,engine X\n' > words.csv && "
    'voxcli speak "Start nginx." --lexicon words.csv --dry-run',
    'echo "Piped text." | voxcli speak -o - > piped.wav',
)  # fmt: skip


@grouped
def speak(
    source: TextSource,
    targets: TargetOptions,
    speech: SpeechOptions,
    parameters: ParameterOptions,
    engine: SizedEngineOptions,
    show: ShowOptions,
    warm: WarmOptions,
) -> None:
    """Speak a text into a file or to stdout."""
    settings = engine.settings()
    utterance = speech.utterance(source.read(), settings, parameters.given())
    speaking.run(utterance, targets, engine, settings, show, warm)
