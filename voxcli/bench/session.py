"""One benchmark from the first request to the last.

Order: the first request after the start, then for each cell its warm-ups and its measured runs,
then one run with the engine's stages timed, where it can tell them. Ctrl-C ends it early and keeps
what was measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice
from statistics import median

from voxcli.audio.write import AudioWriter
from voxcli.bench.cells import BenchOptions, Cell, Job, audio_name, measured_jobs, plan_cells
from voxcli.bench.driver import Driver, Take
from voxcli.bench.memory import PeakMemory
from voxcli.bench.metrics import Run
from voxcli.bench.pace import probe, taken_s
from voxcli.bench.prompts import Prompt
from voxcli.engine.base import SpeechEngine
from voxcli.errors import VoxError
from voxcli.utterance import Utterance

MODEL_VOICE = Utterance("")


class Session:
    """Runs the cells and keeps every run.

    Args:
        engine: started, and not asked anything yet.
        manner: how all prompts are spoken; see `Driver`.
        on_tick: called after every step and nap, for a live table.
        clock, sleep: as for `Driver`.
    """

    def __init__(
        self,
        engine: SpeechEngine,
        options: BenchOptions,
        prompts: list[Prompt],
        *,
        manner: Utterance = MODEL_VOICE,
        on_tick: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine = engine
        self.options = options
        self.cells = plan_cells(prompts, options)
        is_here = not engine.facts.is_elsewhere
        self.memory = PeakMemory(engine.setup.device_type if is_here else "cpu")
        self.other_runs: list[Run] = []  # first and warm-ups
        self.breakdown: dict[str, float] = {}
        self.notes: list[str] = []
        self.is_partial = False
        self._prompts = prompts
        self._clock = clock
        self._driver = Driver(
            engine,
            manner,
            is_live=options.is_streaming,
            is_keeping=options.save_audio is not None,
            on_tick=on_tick,
            clock=clock,
            sleep=sleep,
        )

    @property
    def runs(self) -> list[Run]:
        """All runs: the first request, the warm-ups, then the measured ones."""
        return [*self.other_runs, *(run for cell in self.cells for run in cell.runs)]

    def run(self) -> None:
        """Measure everything, or as much as Ctrl-C leaves time for."""
        try:
            self._drive_others([Job(self._prompts[0], self.options.seed, "first")], 1)
            for cell in self.cells:
                self._measure(cell)
            self._break_down()
        except KeyboardInterrupt:
            self.is_partial = True

    def _drive_others(self, jobs: list[Job], num_users: int) -> None:
        self._driver.drive(jobs, num_users, lambda take: self.other_runs.append(take.run))

    def _measure(self, cell: Cell) -> None:
        prompts = islice(cycle(cell.prompts), self.options.warmup)
        warmups = [
            Job(prompt, self.options.seed, "warmup", cell.concurrency, cell.rate)
            for prompt in prompts
        ]
        self._drive_others(warmups, cell.concurrency or 1)
        takes: list[Take] = []
        probes = [probe()]
        probing_s = 0.0

        def keep(take: Take) -> None:
            nonlocal probing_s
            takes.append(take)
            cell.runs.append(take.run)
            ended_s = self._clock()
            cell.wall_s = ended_s - began_s - probing_s
            if cell.concurrency == 1:  # nobody is in flight
                probes.append(probe())
                probing_s += self._clock() - ended_s

        self.memory.restart()
        taken_before_s = taken_s()
        began_s = self._clock()
        try:
            self._driver.drive(measured_jobs(cell, self.options), cell.concurrency, keep)
        finally:
            taken_after_s = taken_s()
            if taken_before_s is not None and taken_after_s is not None:
                cell.taken_s = max(0.0, taken_after_s - taken_before_s)
            cell.memory = self.memory.since_restart()
            cell.probe_s = median([*probes, probe()])
            if self.options.save_audio is not None:
                cell.runs = [self._save(take) for take in takes]

    def _save(self, take: Take) -> Run:
        """Write a run's audio and note where it is; after the cell, so that it costs no time."""
        run, folder = take.run, self.options.save_audio
        if take.samples is None or folder is None or run.sample_rate is None:
            return run
        path = folder / audio_name(run)
        try:
            with AudioWriter(
                path, run.sample_rate, overwrite=self.options.is_overwriting
            ) as writer:
                writer.write(take.samples)
                writer.commit()
        except VoxError as err:
            self.notes.append(f"{path} was not written: {err}")
            return run
        return replace(run, file=str(path))

    def _break_down(self) -> None:
        """One more run, of the last cell's first prompt, with the engine's stages timed."""
        if not self.engine.facts.stages:
            return
        seconds = dict.fromkeys(self.engine.facts.stages, 0.0)
        runs: list[Run] = []
        with self.engine.timed_stages(seconds, self._clock):
            job = Job(self.cells[-1].prompts[0], self.options.seed, "breakdown")
            self._driver.drive([job], 1, lambda take: runs.append(take.run))
        if runs[0].wall_s is not None:
            host_s = max(0.0, runs[0].wall_s - sum(seconds.values()))
            stages = {f"{name}_s": value for name, value in seconds.items()}
            self.breakdown = {"wall_s": runs[0].wall_s, **stages, "host_s": host_s}
