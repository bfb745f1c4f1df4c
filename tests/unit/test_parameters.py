"""A declared parameter takes what is its number, in whatever form, and refuses all else by name."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.errors import UsageError
from voxcli.parameters import declared, parameter, parse_settings, settle


@dataclass(frozen=True)
class Parameters:
    count: int = parameter(6, "How many", minimum=2, maximum=100, aliases=("number",))
    weight: float = parameter(1.0, "How much", minimum=0, maximum=10)
    is_quick: bool = parameter(False, "Be quick")


DECLARED = declared(Parameters)
COUNT, WEIGHT, IS_QUICK = DECLARED


@pytest.mark.parametrize("value", [5, 5.0, np.int64(5), np.float32(5), Fraction(5)])
def test_a_whole_number_is_one_whatever_library_made_it(value: object) -> None:
    assert COUNT.check(value) == 5
    assert type(COUNT.check(value)) is int
    assert type(WEIGHT.check(value)) is float


@pytest.mark.parametrize(
    "value", [True, "5", None, 5.5, float("nan"), float("inf"), 10**400, -(10**400), [5], 1, 101]
)
def test_what_is_no_number_of_the_range_is_refused_by_name(value: object) -> None:
    with pytest.raises(UsageError, match=r"--count is .{1,40}; give a whole number from 2 to 100"):
        COUNT.check(value)


@pytest.mark.parametrize("cell", ["5", " 5 ", "5.0", "+5", "5,0"])
def test_a_cell_of_a_spreadsheet_is_its_number(cell: str) -> None:
    assert COUNT.parse(cell) == 5


@pytest.mark.parametrize("cell", ["", "many", "1_0", "٥", "0x10", "5e", "nan", "9" * 5000])
def test_a_cell_that_is_no_number_is_refused_shortly(cell: str) -> None:
    with pytest.raises(UsageError) as refused:
        COUNT.parse(cell)
    assert len(str(refused.value)) < 150


@settings(derandomize=True, max_examples=200, deadline=None, database=None)
@given(st.one_of(st.text(max_size=30), st.floats(), st.integers(), st.booleans(), st.none()))
def test_checking_never_fails_in_another_way(value: object) -> None:
    for each in DECLARED:
        for take in (each.check, *([each.parse] if isinstance(value, str) else [])):
            try:
                found = take(value)  # type: ignore[arg-type]
            except UsageError:
                continue
            assert type(found) is each.type


def test_two_names_of_one_parameter_are_one() -> None:
    assert settle("m", DECLARED, {"number": 7})["count"] == 7
    assert settle("m", DECLARED, {"number": 7, "count": 7})["count"] == 7
    with pytest.raises(UsageError, match="--count is given twice: 7 and 8"):
        settle("m", DECLARED, {"number": 7, "count": 8})
    with pytest.raises(UsageError, match="given twice"):
        parse_settings("count=7,number=7", "m", DECLARED)


def test_a_truth_has_a_plain_name_where_a_person_types_it() -> None:
    assert (IS_QUICK.option, IS_QUICK.names) == ("--quick", ("is_quick", "quick"))
    assert COUNT.names == ("count", "number")
    for words in ("quick=yes", "is_quick=true", "--quick=1"):
        assert parse_settings(words, "m", DECLARED) == {"is_quick": True}


def test_a_truth_is_written_in_words() -> None:
    assert IS_QUICK.parse("Yes") is True
    assert IS_QUICK.parse("false") is False
    with pytest.raises(UsageError, match="give true or false"):
        IS_QUICK.parse("maybe")
