"""Newcomers' prompts into their slots, a bounded number of positions at a time.

A prompt's beginning that others share (`prefixes.py`) is run once and copied; what is left of it is
run in spans. Spans of a kind go together as far as none of them waits for another kind. Requests
are taken in their order, and one that is not through goes on at the next call, so a long prompt
does not stall the streams beside it. Does not know graphs: `replay` runs a shape of the static
buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from voxcli.engine.native.prefixes import PrefixCache
from voxcli.engine.native.program import Program
from voxcli.engine.native.prompts import packed, padded, spans
from voxcli.engine.native.request import Request
from voxcli.models.data import Prompt, PromptShape, Span


class SpanRunner:
    """Spans through the static buffers.

    Args:
        program: whose buffers and state they fill.
        replay: runs the spans in the static buffers.

    Attributes:
        shapes: of each kind, ascending.
    """

    def __init__(self, program: Program, replay: Callable[[PromptShape], None]) -> None:
        self._program = program
        self._replay = replay
        self.shapes: dict[str, list[PromptShape]] = {}
        for shape in reversed(program.prompt_shapes):
            self.shapes.setdefault(shape.kind, []).append(shape)

    def kind_of(self, span: Span) -> str:
        return self._program.model.kind_of(span.prompt, span.start, span.end)

    def run(self, kind: str, together: Sequence[Span]) -> None:
        """Spans of one kind, those of a prompt in their order."""
        program = self._program
        for shape, group in packed(together, self.shapes[kind]):
            program.static_prompts.upload(shape, group, program.dummy_slot)
            self._replay(shape)

    def run_prefix(self, prompt: Prompt, row: int) -> None:
        """The beginning of a prompt, into a row of its own."""
        for span in spans(prompt, row, 0, prompt.prefix_len):
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
        going = _Going(max_positions, self._spans.shapes)
        through: list[Request] = []
        for request in requests:
            self._advance(request, going)
            if not request.is_prefilled:
                break
            through.append(request)
        for kind, together in going.in_order():
            self._spans.run(kind, together)
        for request in through:
            assert request.slot is not None
            self._program.model.resume(self._program.state, request.slot, request.prompt)

    def _advance(self, request: Request, going: _Going) -> None:
        """Put one request's next spans among those that go, as far as they are allowed."""
        assert request.slot is not None
        prompt = request.prompt
        if request.num_prefilled == 0 and prompt.prefix_len:
            if not self.prefixes.has(prompt) and not going.allows(prompt.prefix_len):
                return
            request.num_prefilled = self.prefixes.load(prompt, request.slot)
        stage, before = 0, None
        for span in spans(prompt, request.slot, request.num_prefilled, len(prompt)):
            kind = self._spans.kind_of(span)
            stage += before is not None and kind != before
            if not going.take(stage, kind, span):
                return
            before = kind
            request.num_prefilled = span.end


@dataclass
class _Group:
    """Spans that go together.

    Attributes:
        num_positions, num_padded: of all of them, and what those take on the device.
    """

    spans: list[Span] = field(default_factory=list)
    num_positions: int = 0
    num_padded: int = 0


class _Going:
    """Spans of one call, as far as their padded positions are allowed; the first always are.

    Spans of one stage and kind go together. What follows in a prompt in another kind is of the next
    stage.

    Args:
        max_positions: padded ones.
        shapes: of each kind, ascending.
    """

    def __init__(self, max_positions: int, shapes: Mapping[str, Sequence[PromptShape]]) -> None:
        self._left = max_positions
        self._is_untouched = True
        self._shapes = shapes
        self._groups: dict[tuple[int, str], _Group] = {}

    def allows(self, num_positions: int) -> bool:
        """Whether so many more may run; they are then counted."""
        if num_positions > self._left and not self._is_untouched:
            return False
        self._left -= num_positions
        self._is_untouched = False
        return True

    def take(self, stage: int, kind: str, span: Span) -> bool:
        """Whether a span may run; it then goes."""
        group = self._groups.setdefault((stage, kind), _Group())
        num_positions = group.num_positions + len(span)
        num_padded = padded(num_positions, len(group.spans) + 1, self._shapes[kind])
        if not self.allows(num_padded - group.num_padded):
            return False
        group.spans.append(span)
        group.num_positions, group.num_padded = num_positions, num_padded
        return True

    def in_order(self) -> list[tuple[str, list[Span]]]:
        """Kinds and their spans, the stages one behind the other."""
        stages = sorted(self._groups, key=lambda place: place[0])
        return [(place[1], self._groups[place].spans) for place in stages]
