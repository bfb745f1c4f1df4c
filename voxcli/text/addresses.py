"""English: web and mail addresses, file paths, versions and handles, as they are read aloud.

Runs before the numbers, so digits inside an address are left for them. Knows only common
top-level domains, so that "end.Then" is not one.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft

_TLDS = (
    " "
    "com|org|net|io|dev|edu|gov|mil|int|info|biz|app|ai|co|me|tv|uk|de|fr|es|it|nl|be|ch|at|eu|ca|au|nz|jp|cn|kr|in|br|ru|pl|se|no|dk|fi|ie|us|cloud|online|site|store|blog|tech|xyz"
)
_EXTENSIONS = (
    " "
    "txt|md|rst|csv|tsv|json|jsonl|xml|yaml|yml|toml|ini|cfg|conf|log|srt|vtt|html?|css|js|ts|py|rs|go|cpp|hpp|java|sh|bat|exe|dll|zip|tar|gz|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|wav|mp3|mp4|flac|ogg"
)
_EMAIL = re.compile(
    r"(?<![\w.+-])(?:mailto:)?(?P<user>[A-Za-z0-9_.+-]{1,64})@(?P<host>[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5})"
)
_URL = re.compile(
    r"(?<![\w@])(?:(?P<scheme>https?|ftp|file|wss?)://|www\.)(?P<rest>[^\s<>\"“”]{1,2000})", re.I
)
_DOMAIN = re.compile(
    rf"(?<![\w@./-])(?P<rest>(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,4}}(?:{_TLDS})(?![\w-]|\.\w)"
    r"(?:/[^\s<>\"“”,;]{0,1000})?)"
)
_FILE = re.compile(
    rf"(?<![\w.-])(?P<name>[A-Za-z0-9_-]{{1,64}}(?:\.[A-Za-z0-9_-]{{1,32}}){{0,3}})\.(?P<ext>{_EXTENSIONS})\b(?!\.\w)"
)
_UNIX_PATH = re.compile(r"(?<![\w/.~)\]$€£¥])(?:~|\.{1,2})?(?:/[\w.@+-]{1,100}){1,30}/?(?<![.])")
_WINDOWS_PATH = re.compile(
    r"(?<!\w)(?P<drive>[A-Za-z]):(?P<rest>(?:\\[^\\/:*?\"<>|\s]{1,100}){1,30}\\?)"
)
_VERSION = re.compile(
    r"(?<![\w.])(?P<v>v\.? ?|version )?(?P<number>\d{1,5}(?:\.\d{1,5}){2,4})(?![\w.]?\d)", re.I
)
_DATE = re.compile(
    r"\d{1,2}\.\d{1,2}\.(?:1[5-9]|20)\d\d|(?:1[5-9]|20)\d\d\.(?:0[1-9]|1[0-2])\.(?:0[1-9]|[12]\d|3[01])"
)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:\.\d{3}){2}|[1-9]\d{0,2}(?:\.000){2,}")  # 1.000.000
_V_NUMBER = re.compile(r"(?<!\w)v\.? ?(?P<number>\d{1,4}(?:\.\d{1,4})?)(?![\w.]?\d)")
_HANDLE = re.compile(r"(?<![\w@.])@(?P<name>[A-Za-z_]\w{0,40})")
_HASHTAG = re.compile(r"(?<![\w#&])#(?P<name>[A-Za-z_]\w{0,60})")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

_WORDS = {
    ".": "dot", "/": "slash", "\\": "backslash", "-": "dash", "_": "underscore",
    "?": "question mark", "=": "equals", "&": "and", "#": "hash", "%": "percent", "~": "tilde",
    ":": "colon", "+": "plus", "@": "at",
}  # fmt: skip
_MARK = re.compile(r"[^\w\s]|_")
_TRAILING = re.compile(r"[.,;:!?'\")\]}*]+$")


def addresses(draft: Draft) -> None:
    """Say addresses, paths, file names, versions, @handles and #tags."""
    draft.sub(_EMAIL, _email, "address")
    draft.sub(_URL, _url, "address")
    draft.sub(_DOMAIN, _url, "address")
    if "\\" in draft.text:
        draft.sub(_WINDOWS_PATH, _windows, "address")
    draft.sub(_UNIX_PATH, _path, "address")
    draft.sub(
        _FILE, lambda m: f"{_said(m.group('name'))} dot {_extension(m.group('ext'))}", "address"
    )
    draft.sub(_VERSION, _version, "number")
    draft.sub(_V_NUMBER, lambda m: f"version {m.group('number')}", "number")
    draft.sub(_HANDLE, lambda m: f"at {_said(m.group('name'), '_')}", "address")
    draft.sub(
        _HASHTAG, lambda m: f"hashtag {_CAMEL.sub(' ', _said(m.group('name'), '_'))}", "address"
    )


def _said(text: str, silent: str = "") -> str:
    spoken = _MARK.sub(
        lambda m: " " if m.group() in silent else f" {_WORDS.get(m.group(), '')} ", text
    )
    return " ".join(spoken.split())


def _extension(extension: str) -> str:
    known = {
        "txt": "text",
        "json": "jason",
        "yaml": "yaml",
        "zip": "zip",
        "log": "log",
        "java": "java",
    }
    return known.get(extension.lower()) or " ".join(extension.upper())


def _email(match: re.Match[str]) -> str:
    host = match.group("host").rstrip(".-")
    tail = match.group("host")[len(host) :]
    return f"{_said(match.group('user'))} at {_said(host)}{tail}"


def _url(match: re.Match[str]) -> str | None:
    """Host and path; the query and the fragment are noise to a listener and only recorded."""
    rest = match.group("rest")
    tail = _TRAILING.search(rest)
    ending = ""
    if tail and not (tail.group()[0] == ")" and "(" in rest):
        rest, ending = rest[: tail.start()], tail.group()
    address = re.split(r"[?#]", rest, maxsplit=1)[0].rstrip("/")
    spoken = _said(address.removeprefix("www."))
    return f"{spoken}{ending}" if spoken else None


def _windows(match: re.Match[str]) -> str:
    body = match.group("rest").rstrip(".,;")
    return f"{match.group('drive').upper()} colon {_said(body)}{match.group('rest')[len(body) :]}"


def _path(match: re.Match[str]) -> str | None:
    path = match.group()
    return _said(path) if path.count("/") > 1 or path[0] in "~." or len(path) > 3 else None


def _version(match: re.Match[str]) -> str | None:
    if _DATE.fullmatch(match.group()):
        return None
    if _GROUPED.fullmatch(match.group()):
        return match.group().replace(".", ",")
    point = " dot " if match.group("number").count(".") == 3 else " point "
    spoken = point.join(match.group("number").split("."))
    return f"version {spoken}" if match.group("v") else spoken
