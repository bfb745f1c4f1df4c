"""What is measured: options, the cells they make, and the jobs of each cell with their seeds.

No torch: all of this is settled before a model loads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from voxcli.audio.files import check_makeable, output_error
from voxcli.audio.write import check_output
from voxcli.bench.metrics import Run, cell_statistics
from voxcli.bench.prompts import Prompt
from voxcli.errors import UsageError
from voxcli.parameters import Values
from voxcli.utterance import Utterance


@dataclass(frozen=True)
class BenchOptions:
    """What is measured.

    Attributes:
        concurrency: streams in flight, one cell each; empty in an open loop.
        rate: arrivals a second of an open loop, or None.
        repeats: times each prompt is spoken, or each user speaks, whichever is more.
        warmup: runs before each cell.
        seed: of repeat 0; repeat i has `seed + i`, so that two reports have the same work.
        parameters: of the model, as given; the rest is the model's best.
        save_audio: folder for the measured runs' audio.
    """

    concurrency: tuple[int, ...] = (1,)
    rate: float | None = None
    repeats: int = 3
    warmup: int = 1
    seed: int = 1
    parameters: Values = field(default_factory=dict)
    is_streaming: bool = True
    save_audio: Path | None = None
    is_overwriting: bool = False

    def __post_init__(self) -> None:
        if not self.concurrency and self.rate is None:
            raise UsageError("--concurrency is empty", hint="give numbers such as 1,4,16")
        if any(count < 1 for count in self.concurrency):
            raise UsageError(f"--concurrency has {min(self.concurrency)}", hint="give 1 or more")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise UsageError(f"--rate is {self.rate:g}", hint="give arrivals a second, above 0")
        for name, value, least in (("repeats", self.repeats, 1), ("warmup", self.warmup, 0)):
            if value < least:
                raise UsageError(f"--{name} is {value}", hint=f"give {least} or more")


@dataclass
class Cell:
    """One prompt set in one language at one concurrency or rate."""

    set: str
    language: str
    concurrency: int | None
    rate: float | None
    prompts: list[Prompt]
    num_planned: int
    runs: list[Run] = field(default_factory=list)
    wall_s: float = 0.0
    memory: dict[str, int | None] = field(default_factory=dict)
    probe_s: float | None = None
    taken_s: float | None = None

    @property
    def load(self) -> str:
        """ "4" users or "2.5/s" arrivals, for tables."""
        return f"{self.rate:g}/s" if self.rate is not None else str(self.concurrency)

    def as_json(self) -> dict[str, Any]:
        keys = {
            "set": self.set,
            "language": self.language,
            "concurrency": self.concurrency,
            "rate": self.rate,
            "num_planned": self.num_planned,
        }
        around = {"memory": self.memory, "probe_s": self.probe_s, "taken_s": self.taken_s}
        return keys | cell_statistics(self.runs, self.wall_s) | around


@dataclass(frozen=True)
class Job:
    """One utterance to speak.

    Attributes:
        arrival_s: seconds after the start, of an open loop.
    """

    prompt: Prompt
    seed: int
    phase: str
    concurrency: int | None = None
    rate: float | None = None
    arrival_s: float | None = None


def plan_cells(prompts: list[Prompt], options: BenchOptions) -> list[Cell]:
    """The cells in the order they run; each set and language at every load."""
    by_set: dict[tuple[str, str], list[Prompt]] = {}
    for prompt in prompts:
        by_set.setdefault((prompt.set, prompt.language), []).append(prompt)
    loads: tuple[int | None, ...] = (None,) if options.rate is not None else options.concurrency
    return [
        Cell(name, language, load, options.rate, own, max(len(own), load or 1) * options.repeats)
        for (name, language), own in by_set.items()
        for load in dict.fromkeys(loads)
    ]


def measured_jobs(cell: Cell, options: BenchOptions) -> list[Job]:
    """Prompts in turn; the seed counts how often a prompt was spoken."""
    arrivals: list[float | None] = [None] * cell.num_planned
    if cell.rate is not None:
        gaps = np.random.default_rng(options.seed).exponential(1 / cell.rate, cell.num_planned)
        arrivals = [float(at) for at in np.cumsum(gaps) - gaps[0]]
    return [
        Job(
            cell.prompts[index % len(cell.prompts)],
            options.seed + index // len(cell.prompts),
            "measured",
            cell.concurrency,
            cell.rate,
            arrivals[index],
        )
        for index in range(cell.num_planned)
    ]


def audio_name(run: Run | Job) -> str:
    """File name of a measured run; unique within a report."""
    prompt = run.prompt if isinstance(run, Run) else run.prompt.id
    load = f"rate{run.rate:g}" if run.rate is not None else f"c{run.concurrency}"
    return f"{prompt}-{load}-seed{run.seed}.wav"


def utterance_of(prompt: Prompt, manner: Utterance, seed: int) -> Utterance:
    """What is spoken: a prompt in the voice, style and with the settings of `manner`."""
    return replace(
        manner,
        text=prompt.text,
        language=None if prompt.language == "und" else prompt.language,
        sampling=replace(manner.sampling, seed=seed),
    )


def check_files(options: BenchOptions, prompts: list[Prompt]) -> None:
    """Refuse before a model loads audio that could not be saved.

    Raises:
        OutputExistsError, OutputError: of `save_audio`.
    """
    if options.save_audio is None:
        return
    check_makeable(options.save_audio)
    try:
        options.save_audio.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise output_error(err, options.save_audio) from err
    for cell in plan_cells(prompts, options):
        for job in measured_jobs(cell, options):
            path = options.save_audio / audio_name(job)
            check_output(path, overwrite=options.is_overwriting)
