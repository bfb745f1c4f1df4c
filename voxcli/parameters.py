"""What a model can be told about how it speaks: declared once by its family, read everywhere else.

    @dataclass(frozen=True)
    class Parameters:
        temperature: float = parameter(0.9, "How freely a code is drawn", minimum=0.1, maximum=2.0)

    declared(Parameters)                    # the same as plain data
    settle("name", declared(Parameters), {"temperature": 0.5})

Options, HTTP fields, columns of tables and documentation are made from the declaration. Knows no
family and imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

from voxcli.errors import UsageError, nearest

Value = int | float | bool
Values = Mapping[str, Value]

_KINDS: dict[str, type[Value]] = {"int": int, "float": float, "bool": bool}
MAX_SHOWN = 40  # characters of a value in a message
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_DECIMAL = re.compile(r"[+-]?\d{1,15}(\.\d{0,15})?", re.ASCII)
_WHOLE = {"int": "a whole number", "float": "a number", "bool": "true or false"}


@dataclass(frozen=True)
class Parameter:
    """One thing a model can be told, as plain data.

    Attributes:
        kind: "int", "float" or "bool".
        meaning: one clause for help and docs, with the unit.
        minimum, maximum: the range, both ends in it; None for a bool.
        note: what a value in it means, such as "1 is unguided"; empty where there is none.
        aliases: other names that are taken for it and not shown.
    """

    name: str
    kind: str
    meaning: str
    default: Value
    minimum: float | None = None
    maximum: float | None = None
    note: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def type(self) -> type[Value]:
        return _KINDS[self.kind]

    @property
    def option(self) -> str:
        """Its option on the command line."""
        return option_of(self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """What a person may call it in a table or a setting; its own name is the first."""
        return tuple(dict.fromkeys((self.name, _plain(self.name), *self.aliases)))

    @property
    def range(self) -> str:
        """ "from 2 to 100", or empty."""
        return "" if self.minimum is None else f"from {self.minimum:g} to {self.maximum:g}"

    @property
    def wanted(self) -> str:
        """ "a whole number from 2 to 100"."""
        return " ".join(filter(None, (_WHOLE[self.kind], self.range)))

    def check(self, value: object) -> Value:
        """The value as its type; a whole number may come as 5.0, and as any library's number.

        Raises:
            UsageError: of another type, or outside of the range.
        """
        found = value if type(value) is self.type else self._typed(value)
        is_inside = self.minimum is None or self.maximum is None
        if found is not None and (is_inside or self.minimum <= found <= self.maximum):  # type: ignore[operator]
            return found
        note = f"; {self.note}" if self.note else ""
        shown = str(value)[:MAX_SHOWN]
        raise UsageError(f"{self.option} is {shown}", hint=f"give {self.wanted}{note}")

    def parse(self, text: str) -> Value:
        """A value from a cell of a table or a word of an option.

        Raises:
            UsageError: as `check`.
        """
        word = text.strip().replace(",", ".")
        if self.kind == "bool":
            return self.check(_WORDS.get(word.lower(), word or "empty"))
        if not _DECIMAL.fullmatch(word):
            return self.check(text.strip() or "empty")
        return self.check(float(word) if "." in word else int(word))

    def _typed(self, value: object) -> Value | None:
        """The value as the declared type, or None where it is no such thing."""
        is_bool = isinstance(value, bool)
        if is_bool or self.kind == "bool":
            return bool(value) if is_bool and self.kind == "bool" else None
        if not isinstance(value, Real):
            return None
        try:
            number = float(value)
        except OverflowError:
            return None
        if self.kind == "float":
            return number
        return int(number) if number.is_integer() else None


def option_of(name: str) -> str:
    """`--guidance-scale` for `guidance_scale`, and `--greedy` for `is_greedy`."""
    return f"--{_plain(name).replace('_', '-')}"


def _plain(name: str) -> str:
    """A name as people say it: without the verb that our code puts before a truth."""
    return re.sub(r"^(is|has|can)_", "", name)


def parameter(
    default: Value,
    meaning: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    note: str = "",
    aliases: tuple[str, ...] = (),
) -> Any:
    """A field of a family's dataclass of parameters; arguments as of `Parameter`."""
    declaration = Parameter(
        "", type(default).__name__, meaning, default, minimum, maximum, note, aliases
    )
    return field(default=default, metadata={"parameter": declaration})


def declared(parameters: type) -> tuple[Parameter, ...]:
    """The declaration of a family's dataclass of parameters."""
    found = []
    for each in fields(parameters):
        found.append(_named(each.metadata["parameter"], each.name))
    return tuple(found)


def _named(declaration: Parameter, name: str) -> Parameter:
    values = {each.name: getattr(declaration, each.name) for each in fields(Parameter)}
    return Parameter(**{**values, "name": name})


def settle(model: str, parameters: Sequence[Parameter], *given: Values) -> dict[str, Value]:
    """Every parameter with its value: the last one given, else the default.

    Args:
        model: whose they are, for messages.
        given: from the least to the most important.

    Raises:
        UsageError: a name that the model does not have, with those it has; a value out of range.
    """
    by_name = {name: each for each in parameters for name in (each.name, *each.aliases)}
    settled = {each.name: each.default for each in parameters}
    for values in given:
        settled |= _resolved(model, parameters, by_name, values)
    return settled


def _resolved(
    model: str, parameters: Sequence[Parameter], by_name: Mapping[str, Parameter], values: Values
) -> dict[str, Value]:
    """Values by the parameters' own names, checked; one parameter has one value."""
    found: dict[str, Value] = {}
    for name, value in values.items():
        if name not in by_name:
            raise _unknown(model, parameters, name)
        own = by_name[name]
        checked = own.check(value)
        if found.setdefault(own.name, checked) != checked:
            raise UsageError(
                f"{own.option} is given twice: {found[own.name]} and {checked}", hint="keep one"
            )
    return found


def parse_settings(text: str, model: str, parameters: Sequence[Parameter]) -> dict[str, Value]:
    """`"steps=10,guidance_scale=2"` to values; what it leaves out is not in them.

    Raises:
        UsageError: not of that form; else as `settle`.
    """
    found: dict[str, Value] = {}
    by_name = {name: each for each in parameters for name in each.names}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, sign, value = word.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not sign:
            raise UsageError(f"'{word}' is not a setting", hint="write NAME=VALUE,NAME=VALUE")
        if name not in by_name:
            raise _unknown(model, parameters, name)
        if by_name[name].name in found:
            raise UsageError(f"{by_name[name].option} is given twice in '{text}'", hint="keep one")
        found[by_name[name].name] = by_name[name].parse(value)
    return found


def _unknown(model: str, parameters: Sequence[Parameter], name: str) -> UsageError:
    known = ", ".join(f"{each.option} ({each.range})" if each.range else each.option
                      for each in parameters)  # fmt: skip
    hint = f"{nearest(name, [each.name for each in parameters])}it has: {known or 'none'}"
    return UsageError(f"{option_of(name)} is not a parameter of model '{model}'", hint=hint)


def merged(declarations: Iterable[Sequence[Parameter]]) -> tuple[Parameter, ...]:
    """All parameters of several families; one that two of them have gets the wider range."""
    found: dict[str, Parameter] = {}
    for each in (each for declaration in declarations for each in declaration):
        known = found.get(each.name)
        if known is not None and known.minimum is not None and each.minimum is not None:
            assert known.maximum is not None
            assert each.maximum is not None
            each = Parameter(
                each.name, known.kind, known.meaning, known.default,
                min(known.minimum, each.minimum), max(known.maximum, each.maximum),
                known.note, tuple(dict.fromkeys((*known.aliases, *each.aliases))),
            )  # fmt: skip
        found[each.name] = each
    return tuple(found.values())
