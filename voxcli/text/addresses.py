"""English: web and mail addresses, file paths, versions and handles, as they are read aloud.

Figures inside an address are said one by one. Knows only common top-level domains, so that
"end.Then" is not one.
"""

from __future__ import annotations

import re

from voxcli.text.acronyms import acronym
from voxcli.text.patterns import pattern_of
from voxcli.text.spell import cardinal, digits, number, year
from voxcli.text.tagger import CAPITAL, DIGIT, JOINED, SMALL, InWord, OneOf, Recogniser

_TLDS = (
    "com|org|net|io|dev|edu|gov|mil|int|info|biz|app|ai|co|me|tv|uk|de|fr|es|it|nl|be|ch|at|eu|ca|"
    "au|nz|jp|cn|kr|in|br|ru|pl|se|no|dk|fi|ie|us|cloud|online|site|store|blog|tech|xyz|"
    "internal|local|lan|localhost|corp|example|test"
)
_EXTENSIONS = (
    "txt|md|rst|csv|tsv|json|jsonl|xml|yaml|yml|toml|ini|cfg|conf|log|srt|vtt|html?|css|js|ts|py|"
    "rs|go|cpp|hpp|java|sh|bat|exe|dll|zip|tar|gz|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|wav|mp3|"
    "mp4|flac|ogg"
)
_PATH = r"(?:/[^\s<>\"“”,;]{0,1000})?"
_EMAIL = pattern_of(
    r"(?<![\w+-])(?<!\w\.)(?:mailto:)?(?P<user>[A-Za-z0-9_.+&-]{1,64})"
    rf"@(?P<host>[A-Za-z0-9-]{{1,63}}(?:\.[A-Za-z0-9-]{{1,63}}){{1,5}})(?P<path>{_PATH})"
)
_URL = pattern_of(
    r"(?<![\w@])(?:(?P<scheme>https?|ftp|file|wss?)://(?:www\.)?|www\.)"
    r"(?P<rest>[^\s<>\"“”]{1,2000})",
    re.I,
)
_DOMAIN = pattern_of(
    rf"(?<![\w@./-])(?P<rest>(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,4}}(?:{_TLDS})"
    rf"(?![\w-]|\.\w|\s?@)(?::\d{{2,5}})?{_PATH})"
)
# Words that go on after a stop without a space, and end no name.
_GOING_ON = (
    "(?:the|and|but|so|or|he|she|it|we|you|they|this|that|then|when|i|a|an|in|on|of|to|is|was|for|"
    "with|as|at|by|if|my|his|her|no|not|do|be|am|pm|m)"
)
# Small letters on both sides of a point: "db01.internal", "test.abc"; no sentence begins so.
_HOST = pattern_of(
    rf"(?<![\w@./-])(?P<rest>[a-z0-9][a-z0-9-]{{1,62}}\.(?!{_GOING_ON}\b)[a-z]{{2,5}})(?![\w.-]|\s?@)"
)
_FILE = pattern_of(
    r"(?<![\w.-])(?P<name>[A-Za-z0-9_-]{1,64}(?:\.[A-Za-z0-9_-]{1,32}){0,3})"
    rf"\.(?P<ext>{_EXTENSIONS})\b(?!\.\w)"
)
_UNIX_PATH = pattern_of(
    r"(?<![\w/.~)\]$€£¥])(?:~|\.{1,2})?(?:/\.?[\w@+-][\w.@+-]{0,100}){1,30}/?(?<![.])"
)
_WINDOWS_PATH = pattern_of(
    r"(?<!\w)(?P<drive>[A-Za-z]):(?P<rest>(?:\\[^\\/:*?\"<>|\s]{1,100}){1,30}\\?)"
)
_VERSION = pattern_of(
    r"(?<![\w.])(?P<v>v\.? ?|version )?(?P<number>\d{1,5}(?:\.\d{1,5}){2,4})"
    r"(?P<suffix>-(?:alpha|beta|rc|dev)\.?\d{0,3}|:\d{2,5}|/\d{1,2})?(?![\w.]?\d|\w)",
    re.I,
)
# "3.0-rc.1" and "2.x"
_PRERELEASE = pattern_of(
    r"(?<![\w.])(?P<v>v\.? ?|version )?(?P<number>\d{1,4}(?:\.\d{1,4}){1,3})"
    r"-(?P<word>alpha|beta|rc|dev|pre|preview)[.-]?(?P<count>\d{0,3})(?![\w-]|\.\d)",
    re.I,
)
_ANY_MINOR = pattern_of(r"(?<![\w.])(?P<number>\d{1,3}(?:\.\d{1,3})?)\.[xX](?!\w)")
# "00:1A:2B:3C", "2001:db8::1"
_HARDWARE = pattern_of(
    r"(?<![\w:.])(?=[0-9:]{0,40}[A-Fa-f])[0-9A-Fa-f]{1,4}(?:::?[0-9A-Fa-f]{1,4}){2,7}(?![\w:])"
)
_LINEAGE = pattern_of(r"(?<![\w.])(?P<name>[A-Z]{1,2})(?P<number>(?:\.\d{1,3}){2,4})(?![\w.]?\d)")
_DATE = pattern_of(
    r"\d{1,2}\.\d{1,2}\.(?:1[5-9]|20)\d\d|(?:1[5-9]|20)\d\d\.(?:0[1-9]|1[0-2])\.(?:0[1-9]|"
    r"[12]\d|3[01])"
)
_GROUPED = pattern_of(r"[1-9]\d{0,2}(?:\.\d{3}){2}|[1-9]\d{0,2}(?:\.000){2,}")  # 1.000.000
_V_NUMBER = pattern_of(
    r"(?<![\w.])(?:v\.? ?|V\. ?|V(?=\d+\.))(?P<number>\d{1,4}(?:\.\d{1,4})?)(?![\w.]?\d)(?!\w)"
)
_DOTTED = pattern_of(
    rf"(?<![\w.…/\\])\.(?!(?<=[)\]\"'”’]\.){_GOING_ON}\b)"
    r"(?P<name>[a-z]{2,20}(?:\.[a-z]{2,20})?)\b(?!\s?@)|(?<=[A-Z][A-Z])\.NET\b|"
    r"(?<![\w.])\.NET\b"
)
_AFTER_QUOTED = pattern_of(rf"(?<=[)\]\"'”’])\.(?={_GOING_ON}\b)")  # "(then).and"
_HANDLE = pattern_of(r"(?<![\w@.])@(?P<name>[A-Za-z_]\w{0,40})")
_HASHTAG = pattern_of(
    r"(?<![\w#&])#(?!(?=[A-Fa-f]{0,5}\d)"
    r"[0-9A-Fa-f]{6}\b)(?P<name>[A-Za-z_]\w{1,60}+(?!-\d)|(?=[a-z]|[A-Z]\w{0,8}[a-z])\w{2,60}+-\d{1,4}(?![\w-])|"
    r"\d{1,4}[A-Za-z]\w{1,60})"
)
_CAMEL = pattern_of(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")

SIGNS = {
    ".": "dot", "/": "slash", "\\": "backslash", "-": "dash", "_": "underscore",
    "?": "question mark", "=": "equals", "&": "ampersand", "#": "hash", "%": "percent",
    "~": "tilde", ":": "colon", "+": "plus", "@": "at",
}  # fmt: skip
_PART = pattern_of(r"\d+|[^\W\d_]+|[^\w\s]|_")
_SPELLED = pattern_of(r"[b-df-hj-np-tv-xz]{2,5}|html?", re.I)
_COUNTRIES = frozenset(
    [
        "io",
        "uk",
        "us",
        "ai",
        "tv",
        "eu",
        "de",
        "py",
        "js",
        "ts",
        "fr",
        "es",
        "it",
        "nl",
        "be",
        "ch",
        "at",
        "ca",
        "au",
        "in",
        "ie",
        "se",
        "fi",
    ]
)
_TRAILING = pattern_of(r"[.,;:!?'\")\]}*]+$")
_SAID = {"txt": "text", "json": "jason", "yaml": "yaml", "zip": "zip", "log": "log", "java": "java",
         "jpeg": "J peg"}  # fmt: skip


def said(text: str, silent: str = "") -> str:
    """An address part by part: letters as words, figures one by one, signs by their names."""
    spoken: list[str] = []
    last = ""
    for part in _PART.findall(text):
        if part.isdecimal():
            spoken.append(_figures(part))
        elif part[0].isalpha():
            is_spelled = _SPELLED.fullmatch(part) or (last == "." and part in _COUNTRIES)
            loud = _loud(part) if part.isupper() and len(part) > 1 else part
            spoken.append(" ".join(part.upper()) if is_spelled else loud)
        elif part not in silent:
            spoken.append(SIGNS.get(part, ""))
        last = part
    return " ".join(filter(None, spoken))


def _loud(part: str) -> str:
    """A part in capitals: endings of addresses are words, the rest as capitals are."""
    is_ending = part.lower() in (
        "com",
        "org",
        "net",
        "edu",
        "gov",
        "info",
        "biz",
        "app",
        "dev",
        "co",
    )
    return part.lower() if is_ending else acronym(part)


def _figures(text: str) -> str:
    if re.fullmatch(r"19\d\d|20[0-3]\d", text):
        return year(int(text))
    return number(text) if len(text) < 2 or re.fullmatch(r"[1-9]000", text) else digits(text)


def _extension(extension: str) -> str:
    letters = (digits(char) if char.isdecimal() else char for char in extension.upper())
    return _SAID.get(extension.lower()) or " ".join(letters)


def _ending(name: str) -> str:
    """ ".zip" or ".gitignore" by itself."""
    return _extension(name) if re.fullmatch(_EXTENSIONS, name) else said(name)


def _email(match: re.Match[str]) -> str:
    host, path, tail = match["host"].rstrip(".-"), match["path"], ""
    if path:
        path, tail = _without_ending(path)
    else:
        tail = match["host"][len(host) :]
    user = said(_CAMEL.sub(" ", match["user"]))
    return f"{user} at {said(host)} {said(path)}".rstrip() + tail


def _without_ending(address: str) -> tuple[str, str]:
    """The address, and the marks of the sentence after it."""
    tail = _TRAILING.search(address)
    if tail and not (tail.group()[0] == ")" and "(" in address):
        return address[: tail.start()], tail.group()
    return address, ""


def _url(match: re.Match[str]) -> str | None:
    """Host and path; the query and the fragment are noise to a listener and only recorded.

    So are "https://" and "www." in a sentence. An address that is the whole text is dictated: there
    it is said as it is written. Other schemes are always said, since no browser adds them.
    """
    rest, ending = _without_ending(match["rest"])
    lead = match.group()[: match.start("rest") - match.start()].lower()
    is_whole = match.group() == match.string.strip()
    if is_whole or not lead.startswith(("http", "www.")):
        scheme, colon, host = lead.rpartition("://")
        letters = scheme if scheme == "file" else " ".join(scheme.upper())
        lead = f"{letters} {said(colon)} {'W W W dot ' if host else ''}".lstrip()
    else:
        lead = ""
    address = rest if is_whole else re.split(r"[?#]", rest, maxsplit=1)[0].rstrip("/")
    stem, dot, extension = address.rpartition(".")
    if dot and "/" in stem and re.fullmatch(_EXTENSIONS, extension):
        spoken = f"{said(stem)} dot {_extension(extension)}"
    else:
        spoken = said(address)
    return f"{lead}{spoken}{ending}" if spoken else None


def _windows(match: re.Match[str]) -> str:
    body = match["rest"].rstrip(".,;")
    return f"{match['drive'].upper()} colon {said(body)}{match['rest'][len(body) :]}"


def _path(match: re.Match[str]) -> str | None:
    path = match.group()
    return said(path) if path.count("/") > 1 or path[0] in "~." or len(path) > 3 else None


def _version(match: re.Match[str]) -> str | None:
    """Four numbers are a machine's address, whose figures are said one by one."""
    written = match["number"]
    if _DATE.fullmatch(written):
        return None
    if _GROUPED.fullmatch(written):
        return None
    parts = written.split(".")
    if len(parts) == 4 and not match["v"]:
        port = match["suffix"] or ""
        tail = f" {SIGNS[port[0]]} {number(port[1:])}" if port[:1] in (":", "/") else ""
        return " dot ".join(digits(part) for part in parts) + tail
    if (match["suffix"] or "")[:1] in (":", "/"):
        return None
    spoken = " point ".join(digits(p) if p[0] == "0" else cardinal(int(p)) for p in parts)
    suffix = said(match["suffix"] or "", "-.")
    return f"{'version ' if match['v'] else ''}{spoken} {suffix}".rstrip()


def _hardware(match: re.Match[str]) -> str:
    """Figures and letters one by one, in their groups."""
    spelled = (" ".join(digits(c) if c.isdecimal() else c.upper() for c in part)
               for part in match.group().replace("::", ":").split(":"))  # fmt: skip
    return ", ".join(spelled)


def _prerelease(match: re.Match[str]) -> str:
    parts = " point ".join(map(number, match["number"].split(".")))
    word = "R C" if match["word"].lower() == "rc" else match["word"].lower()
    count = f" {number(match['count'])}" if match["count"] else ""
    return f"{'version ' if match['v'] else ''}{parts} {word}{count}"


def _hashtag(match: re.Match[str]) -> str:
    words = said(_CAMEL.sub(" ", match["name"]), "_-")
    return f"hashtag {words}"


_WORD = CAPITAL + SMALL + DIGIT
_HAS_SCHEME = InWord(OneOf("://", "www.", ignores_case=True))
_HAS_TWO_STOPS = InWord(r"\.(?<=\d\.)\d{1,5}\.\d", ".0")
_HAS_PRERELEASE = InWord(r"\d-(?i:alpha|beta|rc|dev|pre)", "-.0")
_HAS_INNER_STOP = InWord(r"\.(?<=\w\.)[A-Za-z]", ".")
_HAS_LETTER_BEHIND_STOP = InWord(r"\.[a-zN]", ".")
ADDRESSES = (
    Recogniser("address", _WORD + "_", _EMAIL, _email, "@"),
    Recogniser("address", CAPITAL + SMALL, _URL, _url, search=_HAS_SCHEME),
    Recogniser("address", JOINED, _DOMAIN, _url, ".", _HAS_INNER_STOP),
    Recogniser("address", CAPITAL + SMALL, _WINDOWS_PATH, _windows, ":\\"),
    Recogniser("address", "/~.", _UNIX_PATH, _path, "/"),
    Recogniser(
        "address",
        JOINED + "_",
        _FILE,
        lambda m: f"{said(m['name'])} dot {_extension(m['ext'])}",
        ".",
        _HAS_INNER_STOP,
    ),
    Recogniser("address", JOINED, _HOST, _url, ".", _HAS_INNER_STOP),
    Recogniser(
        "address", _WORD, _HARDWARE, _hardware, ":0", InWord(r"[A-Fa-f0-9]:[A-Fa-f0-9:]+:", ":")
    ),
    Recogniser(
        "number",
        CAPITAL,
        _LINEAGE,
        lambda m: " point ".join(
            (" ".join(m["name"]), *(number(each) for each in m["number"].split(".")[1:]))
        ),
        ".",
        InWord(r"[A-Z]\.\d+\.", ".0"),
    ),
    Recogniser("number", _WORD, _PRERELEASE, _prerelease, ".-", _HAS_PRERELEASE),
    Recogniser(
        "number",
        DIGIT,
        _ANY_MINOR,
        lambda m: f"{' point '.join(map(number, m['number'].split('.')))} point x",
        ".",
        InWord(r"\d\.[xX]", ".0"),
    ),
    Recogniser("number", _WORD, _VERSION, _version, ".", _HAS_TWO_STOPS),
    Recogniser(
        "number",
        CAPITAL + SMALL,
        _V_NUMBER,
        lambda m: f"version {number(m['number'])}",
        DIGIT,
        pattern_of(r"[vV]\.? ?\d"),
    ),
    Recogniser(
        "address",
        ".",
        _DOTTED,
        lambda m: f" dot {_ending(m['name'] or 'net')}",
        search=_HAS_LETTER_BEHIND_STOP,
    ),
    Recogniser("punctuation", ".", _AFTER_QUOTED, lambda m: ". ", search=_HAS_LETTER_BEHIND_STOP),
    Recogniser("address", "@", _HANDLE, lambda m: f"at {said(_CAMEL.sub(' ', m['name']), '_')}"),
    Recogniser("address", "#", _HASHTAG, _hashtag),
)
