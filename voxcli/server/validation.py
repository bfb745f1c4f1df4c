"""What is wrong with the fields of a request, in words that name the field, what it holds and what
it may hold.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Any

from voxcli.server.failures import error_body
from voxcli.server.schema import PATTERNS

MAX_SHOWN = 40  # characters of what a client sent, in a message to it

# Kinds of pydantic's errors -> what a field must be, or what it is. Other kinds are told in the
# words of pydantic.
_MUST = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "model_type": "an object",
    "finite_number": "a finite number",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
}
_TEXTS = {
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "is too long: {max_length} characters are allowed",
    "string_unicode": "holds half of a surrogate pair, which is no text",
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "two_names": "is given by two names, {names}; give one",
}
_REFUSED = "invalid_request_error"


def explain_validation(problems: list[dict[str, Any]]) -> dict[str, Any]:
    """The first problem that the schema found, as the body of an answer with its parameter."""
    first = problems[0]
    path = _path(first)
    if first["type"] == "json_invalid":
        reason = first.get("ctx", {}).get("error", "it cannot be parsed").removesuffix(" at")
        where = first["loc"][-1]
        place = f" at character {where + 1}" if isinstance(where, int) else ""
        return error_body(f"the body is not JSON: {reason}{place}", _REFUSED, None, "json")
    if first["type"] == "model_attributes_type" and not path:
        message = "the body is not a JSON object; send one with Content-Type: application/json"
        return error_body(message, _REFUSED, None, "json")
    # what follows the first are names that only the schema knows
    param = path[0] if path else first.get("ctx", {}).get("param")
    if "UploadFile" in first["msg"]:
        message = f"'{param}' is no file; send it as one, with a file name"
    else:
        message = _sentence(_nearest(problems, param), param)
    return error_body(message, _REFUSED, param, "invalid_value")


def _path(problem: dict[str, Any]) -> list[str]:
    return [str(part) for part in problem["loc"] if part not in ("body", "query", "path", "header")]


def _nearest(problems: list[dict[str, Any]], param: str | None) -> dict[str, Any]:
    """Of a field that may be of several types, what is wrong with it as the type that it has."""
    same = [each for each in problems if _path(each)[:1] == [param]]
    of_its_type = [each for each in same if not each["type"].endswith("_type")]
    return next(iter((*of_its_type, *same, *problems)))


def _sentence(problem: dict[str, Any], param: str | None) -> str:
    kind, given, path = problem["type"], problem.get("input"), _path(problem)
    # between the names of a field and of one inside it stands a type
    what = f"'{path[-1]}' of '{param}'" if len(path) > 2 else f"'{param}'" if param else "the body"
    limits = {name: _plain(value) for name, value in problem.get("ctx", {}).items()}
    if kind == "string_pattern_mismatch":
        return f"{what} must be {PATTERNS[limits['pattern']]}, but is {_shown(given)}"
    if kind in _MUST:
        return f"{what} must be {_MUST[kind].format_map(limits)}, but is {_shown(given)}"
    if kind == "missing" and isinstance(given, dict) and path:
        return f"{what} is missing{_instead(path[-1], given)}"
    if kind in _TEXTS:
        return f"{what} {_TEXTS[kind].format_map(limits)}"
    return f"{what}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"


def _instead(name: str, given: dict[str, Any]) -> str:
    """What may be the field by another name, of those that were given."""
    near = get_close_matches(name, [key for key in given if isinstance(key, str)], n=1, cutoff=0.7)
    return f"; was it meant by {_shown(near[0])}?" if near else ""


def _plain(limit: Any) -> str:
    if isinstance(limit, float) and limit.is_integer():
        limit = int(limit)
    return f"{limit:,}" if isinstance(limit, int) else str(limit)


def _shown(given: Any) -> str:
    if isinstance(given, dict | list):
        return "an object" if isinstance(given, dict) else "a list"
    if given is not None and not isinstance(given, str | int | float):
        return "a file"
    cut = given[: MAX_SHOWN + 1] if isinstance(given, str) else given
    text = json.dumps(cut, ensure_ascii=False)  # of true and null as clients write them
    text = text.encode("utf-8", "backslashreplace").decode()  # halves of surrogate pairs
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
