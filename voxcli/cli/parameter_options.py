"""The options for what models can be told, made from what their families declare."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from typing import Annotated, Any, ClassVar, TypeVar

import typer

from voxcli.errors import UsageError
from voxcli.models import all_parameters
from voxcli.parameters import Parameter, Value, option_of

_Group = TypeVar("_Group")


def _with_parameters(group: type[_Group]) -> type[_Group]:
    """The group with an option for each name of each parameter that any family declares."""
    options: list[tuple[str, Any, Any]] = []
    for each in all_parameters():
        for name in (each.name, *each.aliases):
            option = _option_for(each, name)
            made = field(default=None, metadata={"parameter": each.name})
            options.append((name, Annotated[each.type | None, option], made))
    made_group = make_dataclass(group.__name__, options, bases=(group,), frozen=True)
    made_group.__doc__ = group.__doc__
    return made_group


def _option_for(parameter: Parameter, name: str) -> Any:
    option = option_of(name)
    if parameter.type is bool:
        option = f"{option}/--no-{option.removeprefix('--')}"
    help = ", ".join(filter(None, (parameter.meaning, parameter.range)))
    return typer.Option(
        option,
        metavar={int: "N", float: "X"}.get(parameter.type),
        help=f"{help}; {parameter.note}." if parameter.note else f"{help}.",
        show_default="the model's best",
        hidden=name != parameter.name,
    )


@_with_parameters
@dataclass(frozen=True)
class ParameterOptions:
    """What models can be told, as their families declare it; a plan refuses what is another's."""

    panel: ClassVar[str] = "Model parameters"

    def given(self) -> dict[str, Value]:
        """What was typed, by the parameters' own names.

        Raises:
            UsageError: one parameter by two names, with two values.
        """
        found: dict[str, Value] = {}
        for option in fields(self):
            value, name = getattr(self, option.name), option.metadata["parameter"]
            if value is None:
                continue
            if str(found.setdefault(name, value)) != str(value):  # nan is not equal to itself
                raise UsageError(
                    f"{option_of(name)} is {found[name]} and {option_of(option.name)} is {value}",
                    hint="they are the same; give one",
                )
        return found
