"""What many prompts begin with is run once: rows of the state beside the slots keep it.

The positions of a reference come first in a prompt and see nothing after them, so their keys and
values are the same for every text in that voice. They are run into a row of their own and copied
from there into the slot of each request. Least recently used rows make room for new ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from voxcli.models.base import SpeechModel
from voxcli.models.data import Prompt


class PrefixCache:
    """Rows that hold beginnings of prompts.

    Args:
        model, state: whose rows they are.
        rows: state rows that no request uses.
        run: runs the beginning of a prompt into a row.

    Attributes:
        num_run: beginnings that had to be run.
        num_shared: prompts that found theirs.
    """

    def __init__(
        self, model: SpeechModel, state: Any, rows: range, run: Callable[[Prompt, int], None]
    ) -> None:
        self.num_run = 0
        self.num_shared = 0
        self._model = model
        self._state = state
        self._run = run
        self._free = list(rows)
        self._rows: OrderedDict[str, int] = OrderedDict()

    def has(self, prompt: Prompt) -> bool:
        """Whether the beginning of a prompt is kept."""
        return prompt.prefix_key in self._rows

    def load(self, prompt: Prompt, slot: int) -> int:
        """Put the beginning of a prompt into a slot; returns its length, 0 where it has none.

        The slot gets the same bits whether the beginning was kept or had to be run.
        """
        if not prompt.prefix_len:
            return 0
        if self.has(prompt):
            self.num_shared += 1
        else:
            self.num_run += 1
            row = self._free.pop() if self._free else self._rows.popitem(last=False)[1]
            self._run(prompt, row)
            self._rows[prompt.prefix_key] = row
        self._rows.move_to_end(prompt.prefix_key)
        row = self._rows[prompt.prefix_key]
        self._model.copy_prefix(self._state, row, slot, prompt.prefix_len)
        return prompt.prefix_len
