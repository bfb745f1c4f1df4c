"""Newcomers' prompts into their slots, a bounded number of positions at a time.

A prompt's beginning that others share (`engine.prefixes`) is run once and copied; what is left of
it is run in spans. Spans that are text alone wait for each other and go together. Requests are
taken in their order, and one that is not through goes on at the next call, so a long prompt does
not stall the streams beside it. Does not know graphs: `replay` runs a shape of the static buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from voxcli.engine.native.prefixes import PrefixCache
from voxcli.engine.native.program import Program
from voxcli.engine.native.prompts import (
    PromptShape,
    Span,
    audio_shape,
    group_texts,
    padded_length,
    spans,
)
from voxcli.engine.native.request import Request
from voxcli.models.base import Prompt


class SpanRunner:
    """Spans through the static buffers.

    Args:
        program: whose buffers and state they fill.
        replay: runs the spans in the static buffers.
    """

    def __init__(self, program: Program, replay: Callable[[PromptShape], None]) -> None:
        self._program = program
        self._replay = replay

    def run_texts(self, texts: Sequence[Span]) -> None:
        """Spans without audio that do not wait for each other."""
        for shape, group in group_texts(texts, self._program.prompt_shapes):
            self._run(shape, group)

    def run_one(self, span: Span) -> None:
        """Any span."""
        if span.has_audio:
            self._run(audio_shape(span, self._program.prompt_shapes), [span])
        else:
            self.run_texts([span])

    def run_prefix(self, prompt: Prompt, row: int) -> None:
        """The beginning of a prompt, into a row of its own."""
        for span in spans(prompt, row, 0, prompt.prefix_len):
            self.run_one(span)

    def _run(self, shape: PromptShape, group: Sequence[Span]) -> None:
        self._program.static_prompts.upload(shape, group, self._program.dummy_slot)
        self._replay(shape)


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
        texts: list[Span] = []  # each the last of its prompt: nothing waits for it
        for request in requests:
            self._advance(request, allowance, texts)
            if not request.is_prefilled:
                break
        self._spans.run_texts(texts)

    def _advance(self, request: Request, allowance: _Allowance, texts: list[Span]) -> None:
        """One request's next spans as far as they are allowed, or their place in `texts`."""
        assert request.slot is not None
        prompt, program = request.prompt, self._program
        if request.num_prefilled == 0 and prompt.prefix_len:
            if not self.prefixes.has(prompt) and not allowance.take(prompt.prefix_len):
                return
            request.num_prefilled = self.prefixes.load(prompt, request.slot)
        for span in spans(prompt, request.slot, request.num_prefilled, len(prompt)):
            if not allowance.take(padded_length(span)):
                return
            if span.end == len(prompt) and not span.has_audio:
                texts.append(span)
            else:
                self._spans.run_one(span)
            request.num_prefilled = span.end
        if prompt.is_continuation:
            program.model.resume(program.state, request.slot, prompt.patches)


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
