"""Newcomers' prompts into their slots, a bounded number of positions at a time.

A prompt's beginning that others share (`prefixes.py`) is run once and copied; what is left of it is
run in spans. Last spans of a kind that goes together wait for each other. Requests are taken in
their order, and one that is not through goes on at the next call, so a long prompt does not stall
the streams beside it. Does not know graphs: `replay` runs a shape of the static buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from voxcli.engine.native.prefixes import PrefixCache
from voxcli.engine.native.program import Program
from voxcli.engine.native.prompts import grouped, kind_of, padded_length, spans
from voxcli.engine.native.request import Request
from voxcli.models.data import Prompt, PromptKind, PromptShape, Span


class SpanRunner:
    """Spans through the static buffers.

    Args:
        program: whose buffers and state they fill.
        replay: runs the spans in the static buffers.
    """

    def __init__(self, program: Program, replay: Callable[[PromptShape], None]) -> None:
        self._program = program
        self._replay = replay

    def spans(self, prompt: Prompt, row: int, start: int, end: int) -> list[Span]:
        """Positions of a prompt in spans."""
        return spans(self._program.model.prompt_kinds, prompt, row, start, end)

    def kind_of(self, span: Span) -> PromptKind:
        return kind_of(self._program.model, span)

    def run(self, kind: PromptKind, together: Sequence[Span]) -> None:
        """Spans of one kind that do not wait for each other."""
        program = self._program
        for shape, group in grouped(together, kind, program.prompt_shapes):
            program.static_prompts.upload(shape, group, program.dummy_slot)
            self._replay(shape)

    def run_prefix(self, prompt: Prompt, row: int) -> None:
        """The beginning of a prompt, into a row of its own."""
        for span in self.spans(prompt, row, 0, prompt.prefix_len):
            self.run(self.kind_of(span), [span])


class Prefilling:
    """The prompts' side of a runner whose shapes are captured; arguments as of `SpanRunner`."""

    def __init__(self, program: Program, replay: Callable[[PromptShape], None]) -> None:
        self._program = program
        self._spans = SpanRunner(program, replay)
        self.prefixes = PrefixCache(
            program.model, program.state, program.prefix_rows, self._spans.run_prefix
        )

    def run(self, requests: Sequence[Request], max_positions: int) -> None:
        """Run prompts, or as much of them as `max_positions`, padded, allow; at least one span.

        Args:
            requests: with slots, none of them prefilled.
        """
        allowance = _Allowance(max_positions)
        last: dict[PromptKind, list[Span]] = {}  # the last of their prompts: nothing waits for them
        through: list[Request] = []
        for request in requests:
            self._advance(request, allowance, last)
            if not request.is_prefilled:
                break
            through.append(request)
        for kind, together in last.items():
            self._spans.run(kind, together)
        for request in through:
            assert request.slot is not None
            self._program.model.resume(self._program.state, request.slot, request.prompt)

    def _advance(
        self, request: Request, allowance: _Allowance, last: dict[PromptKind, list[Span]]
    ) -> None:
        """One request's next spans as far as they are allowed, or their place in `last`."""
        assert request.slot is not None
        prompt = request.prompt
        if request.num_prefilled == 0 and prompt.prefix_len:
            if not self.prefixes.has(prompt) and not allowance.take(prompt.prefix_len):
                return
            request.num_prefilled = self.prefixes.load(prompt, request.slot)
        for span in self._spans.spans(prompt, request.slot, request.num_prefilled, len(prompt)):
            kind = self._spans.kind_of(span)
            if not allowance.take(padded_length(kind, span)):
                return
            if span.end == len(prompt) and kind.max_together > 1:
                last.setdefault(kind, []).append(span)
            else:
                self._spans.run(kind, [span])
            request.num_prefilled = span.end


class _Allowance:
    """Positions that one call may still run; the first ones always pass."""

    def __init__(self, num_positions: int) -> None:
        self._left = num_positions
        self._is_untouched = True

    def take(self, num_positions: int) -> bool:
        """Whether so many may run; they are then counted."""
        if num_positions > self._left and not self._is_untouched:
            return False
        self._left -= num_positions
        self._is_untouched = False
        return True
