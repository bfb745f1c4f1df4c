"""Columns of a table that are parameters of models: their headers, and what their cells say.

Made from the declarations, so that nothing here names a parameter. A parameter that only models of
another family have is a column too: a value in it is a mistake that is told, not dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from voxcli.batch.records import FIELDS, shorten
from voxcli.engine.base import EngineFacts
from voxcli.errors import UsageError
from voxcli.models import all_parameters
from voxcli.parameters import Parameter, Value, settle


def way_out(column: str) -> str:
    """For a message on a cell: its column may be called so by chance."""
    return f", or --map {column}= where the column means something else"


@dataclass(frozen=True)
class ParameterColumns:
    """What a row can tell its model.

    Attributes:
        model: its name, for messages.
        own: what it can be told.
        others: what only models of other families can.
    """

    model: str = ""
    own: tuple[Parameter, ...] = ()
    others: tuple[Parameter, ...] = ()

    @cached_property
    def headers(self) -> dict[str, str]:
        """Each name and alias to the parameter that it is."""
        found: dict[str, str] = {}
        for each in (*self.own, *self.others):
            for header in each.names:
                found.setdefault(header, each.name)
        return found

    @cached_property
    def fields(self) -> frozenset[str]:
        """Names of columns that say something of their row; others are kept for the report."""
        return frozenset((*FIELDS, *self.headers))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(each.name for each in (*self.own, *self.others))

    def read(self, cells: Mapping[str, str]) -> tuple[dict[str, Value], dict[str, str]]:
        """The values of a row, and by column what is wrong with its cells."""
        values: dict[str, Value] = {}
        wrong: dict[str, str] = {}
        if self._names.isdisjoint(cells):
            return values, wrong
        given = {name: cell.strip() for name, cell in cells.items() if cell.strip()}
        for each in self.own:
            if each.name not in given:
                continue
            try:
                values[each.name] = each.parse(given[each.name])
            except UsageError as err:
                wrong[each.name] = f"is '{shorten(given[each.name])}'; {err.hint}"
        for each in self.others:
            if each.name in given:
                wrong[each.name] = self._refusal(each)
        return values, {name: f"{why}{way_out(name)}" for name, why in wrong.items()}

    def _refusal(self, other: Parameter) -> str:
        try:
            settle(self.model, self.own, {other.name: other.default})
        except UsageError as err:
            return str(err)
        raise AssertionError(f"{other.name} is a parameter of '{self.model}'")


def columns_of(facts: EngineFacts) -> ParameterColumns:
    """The columns that a table for this engine may have."""
    known = {name for each in facts.parameters for name in each.names}
    others = tuple(each for each in all_parameters() if each.name not in known)
    return ParameterColumns(facts.model, facts.parameters, others)
