"""`voxcli speak`: a text to a file or to stdout."""

from __future__ import annotations

from voxcli.cli import speaking
from voxcli.cli.options import SizedEngineOptions, SpeechOptions, TextSource, grouped
from voxcli.cli.speaking import ShowOptions, TargetOptions

EXAMPLES = (
    'voxcli speak "The ferry leaves at noon." -o ferry.wav',
    "voxcli speak 'It costs $1,299.50 until 5:30 p.m.' --dry-run",
    "voxcli speak --file samples/garden.txt -o garden.mp3 --seed 7",
    'echo "Piped text." | voxcli speak - -o - > piped.wav',
)  # fmt: skip


@grouped
def speak(
    source: TextSource,
    targets: TargetOptions,
    speech: SpeechOptions,
    engine: SizedEngineOptions,
    show: ShowOptions,
) -> None:
    """Speak a text into a file or to stdout."""
    settings = engine.settings()
    utterance = speech.utterance(source.read(), settings)
    speaking.run(utterance, targets, engine, settings, show)
