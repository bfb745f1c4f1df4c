"""English: rows of capitals: as a word where they are one, else letter by letter.

The bundled voice was never trained on spelled acronyms, so each becomes single letters ("F B I")
or a word ("Nasa"). A line of capitals becomes words; acronyms that are known, and rows that no
English word can be, stay in it. Knows no grammar: the common reading wins.
"""

from __future__ import annotations

import re

from voxcli.text import lexicon
from voxcli.text.changes import Draft
from voxcli.text.patterns import pattern_of
from voxcli.text.romans import is_counted
from voxcli.text.tagger import CAPITAL, InWord, Recogniser
from voxcli.text.words import LOUD_SHORT, ROADS, SENTENCE_ENDING, TITLES, spaced

_WORDS = {
    "OK": "okay", "ASCII": "askey", "JPEG": "jay peg", "JSON": "jason", "SQL": "sequel",
    "GUI": "gooey", "YAML": "yamel", "GIF": "gif", "RAM": "ram", "ROM": "rom", "PIN": "pin",
    "SIM": "sim", "LAN": "lan", "WAN": "wan", "SIDS": "sids", "AIDS": "aids", "ZIP": "zip",
    "MIDI": "middy", "CAD": "cad", "MIT": "M I T", "WYSIWYG": "wizzy wig", "ASAP": "A S A P",
    "AKA": "also known as", "VS": "versus", "ETA": "E T A",
}  # fmt: skip
_SPELLED_LIST = (
    "UK EU UN USA FBI CIA USB CPU GPU API URL PDF TV AI IBM BBC CNN NBA NFL DVD CD PC ID IQ UFO "
    "DIY FAQ CEO CFO CTO ATM VIP GPS DNA RNA HIV UAE NYC USSR UCLA YMCA YWCA NAACP IEEE ISBN "
    "USPS AARP ESPN UEFI IAEA AAAS AIIMS EULA IUCN OECD ACLU USMC USDA USAF ICAO IATA IRS NSA EPA "
    "FAA DEA DMV DHS DOJ TSA SSN SEC ATF CDC FDA NYPD LAPD SUV ATV RV AC DC HR PR CV IOU DOD IRA "
    "FYI BTW DOB ESL GDP IPO ROI KPI CRM ERP SEO UX UI OS IOS APA MLA AMA NRA NRC EKG ECG MRI ICU "
    "IVF OCD ADHD PTSD AED EMT BMI UTI HDMI SSD HDD LED LCD OLED PDA GIS IDE SDK JVM AWS EST EDT "
    "CST CDT MST MDT PST PDT AEST AEDT CET CEST IST JST GMT UTC UPS ISP VPN IPA ISO IEC IMF WTO "
    "ILO IOC UAW UAV EV AGM ABC NBC CBS PBS NPR UPI AP AFP MTV HBO AMC ESA IPCC AOL UCL LSE EEG "
    "EEOC UNHCR ASL UHF AOC AFL NHL MLB MLS NCAA UFC AFC NFC USC UNC USCG USGS USN USGA DUI DOA "
    "POW EOD IED UHD ESG ETF APR AUM IRL AMA OEM ODM OTC RPG FPS MMO NPC AFK ELO IRC"
)
_SPELLED = frozenset(_SPELLED_LIST.split())
_SHORT_WORDS_LIST = (
    "NO YES NOT ALL AND THE BUT FOR YOU ARE WAS NOW NEW OUT ONE TWO SIX TEN OFF TOO WHO WHY HOW "
    "CAN MAY GO DO SO UP WE HE SHE IT IS IN ON AT BY TO OF OR IF AS AN BE ME MY HIS HER ITS OUR "
    "HAS HAD DID GET GOT LET SAY SEE RUN BIG BAD OLD DAY MAN BOY END WAR RED HOT TOP WIN FUN "
    "TRY USE ANY FEW HEY OH AH HA WOW OW BOO BYE AGO AIR ASK BAR BED BIT BOX BUY CAR CAT CUT "
    "DOG EAT EGG EYE FAR FIT FLY GUN GUY HIM HIT JOB KEY LAW LAY LEG LIE LOT LOW MAD MOM DAD "
    "NOR OIL OWN PAY PUT RAW SAD SAT SEA SET SIR SIT SKY SON SUN TAX TEA THY TOY VAN WAY WET "
    "WON YET ZOO FREE DIM OVER ONLY OPEN STOP WALK WAIT EXIT HERE THEM THIS THAT WITH APP"
)
_SHORT_WORDS = frozenset(_SHORT_WORDS_LIST.split())
_CAPITALS = r"[A-Z]{2,30}(?:['’][A-Z]{1,4})?"
# A line of capitals: three words or more, numbers and marks between them. "I" and "A" count.
_LOUD = rf"(?:{_CAPITALS}|I['’](?:LL|VE|M|D)|[IA](?![\w.'’]))(?!\w)"
_LOUD_PAIR = pattern_of(r"[A-Z][A-Z](?:[\W\d]|[.!?]?\Z)")
_LOUD_NEXT = pattern_of(r"[A-Z][\"')]?[\s,!?.:;-]{1,3}[\"'(]?[A-Z\d]")
_SHOUT = pattern_of(
    rf"(?<![\w.&]){_LOUD}(?:[\"')]?[ ,!?.:;\-\n]{{1,3}}[\"'(]?(?:{_LOUD}|\d{{1,9}}(?![\w.,]\w|"
    rf"\w))){{2,400}}(?!\w)"
)
# Two words that are a whole line.
_PAIR = pattern_of(rf"^{_LOUD} {_LOUD}(?=[.!?]{{0,3}}[ \t]*$)", re.MULTILINE)
_CONTRACTION = pattern_of(r"(?<![\w'’])[A-Z]{1,8}(?:['’](?:LL|VE|RE|M)|(?<=N)['’]T)(?![\w'’])")
_TITLE = pattern_of(
    r"(?<![\w.&])(?:(?:MRS?|MS|DR|PROF|ST)\.(?=\s[A-Z])|(?:FIGS?|VOL|NOS?)\.(?=\s?\d))"
)
_NUMERAL = pattern_of(r"(?!(?:I|LI)\b)(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{1,3}|V)|X{2,3}|LX{1,3}")
_NEXT = pattern_of("\\s(?P<word>[A-Z]+)(?![\\w'’])")
_ACRONYM = pattern_of(
    r"(?<!\w)(?<!\w['’])(?P<letters>[A-Z]{2,30})(?P<suffix>s|['’]s|['’]d)?(?![^\W²³]|['’]\w)"
)
_IT = pattern_of(r"\bIT(?![\w'’])(?<!\.IT)")
_VOWEL = pattern_of("[AEIOUY]")


def _shout(match: re.Match[str]) -> str | None:
    """The words in small letters; acronyms, titles and the halves of a day as they are."""
    loud = re.findall(_CAPITALS, match.group())
    if len(loud) < 2 or not any(map(_is_plainly_word, loud)):
        return None
    return _shouted(match)


def _shouted(match: re.Match[str]) -> str:
    def lower(word: re.Match[str]) -> str:
        text, before = word.group(), word.string[max(0, word.start() - 2) : word.start()]
        name = text.capitalize()
        if match.string.startswith(".", match.start() + word.end()):
            if (name in ROADS or name == "St") and _GOES_ON.match(word.string, word.end()):
                return _short_in_sentence(word) + _NO_STOP
            if text in LOUD_SHORT:
                may_end = text.lower() in SENTENCE_ENDING
                goes_on = not may_end or _GOES_ON.match(word.string, word.end())
                return LOUD_SHORT[text] + (_NO_STOP if goes_on else "")
            if (name in TITLES and name != "St") or name in ("Jr", "Sr"):
                return name
            if name == "St" and _is_saint(word):
                return name
            if name in ("St", "Co") or name in ROADS:
                return {"St": "street", "Co": "company"}.get(name) or ROADS[name].lower()
        after = _NEXT.match(word.string, word.end())
        if after and _NUMERAL.fullmatch(after["word"]):
            # "War II": a numeral is known by the name before it
            return text.lower() if text in _LINKS else name
        if name in ROADS and _is_unsayable(text) and text not in _SPELLED and name != "Dr":
            return ROADS[name].lower()
        if name == "St" and _is_street(word, after["word"] if after else ""):
            return "street"
        if name in ("Mr", "Mrs", "Ms", "Dr", "St") and after and after["word"] not in _SHORT_WORDS:
            return name
        if text.startswith(("I'", "I’")):
            return name
        if _is_of_a_name(word):
            return name
        is_half = text in ("AM", "PM") and before.strip().isdecimal()
        if _NUMERAL.fullmatch(text):
            return name if _is_name(word, after["word"] if after else "") else text
        is_kept = text in _SPELLED or text in _WORDS or text == "I" or _is_unsayable(text)
        if is_kept or is_half or _is_short_for(text):
            return text  # left for the rules of acronyms
        return text.lower()

    spoken = re.sub(r"[A-Z]+(?:['’][A-Z]+)?", lower, match.group())
    spoken = spoken.replace(f"{_NO_STOP}.", "")
    spoken = _TITLED_NAME.sub(lambda m: m.group().upper(), spoken)
    return re.sub(r"(?:^|[.!?] )[a-z]", lambda first: first.group().upper(), spoken)


def _short_in_sentence(match: re.Match[str]) -> str:
    """A road or a doctor with a full stop that ends no sentence: "ELM ST. IS", "THE DR. IS"."""
    name = match.group().capitalize()
    if name == "Dr" and match.string[: match.start()].endswith("THE "):
        return "doctor"
    return "street" if name == "St" else ROADS[name].lower()


def _is_short_for(letters: str) -> bool:
    """Whether a short row is no word: "GOP", "OPEC"."""
    return len(letters) < 5 and letters.isalpha() and not lexicon.is_word(letters)


_PLACED = pattern_of(
    r"(?P<lead>\A|\b(?:ON|AT|TO|FROM|NEAR|OFF|ALONG|ACROSS|AND|\d{1,5}) )(?P<name>[A-Z]+) \Z"
)
# What follows the full stop of a short form in the middle of a sentence
_GOES_ON = pattern_of(
    r"\. (?:IS|ARE|WAS|WERE|WILL|HAS|HAVE|HAD|CAN|AT|AND|OR|ON|IN|FROM|TO|NEAR|BY|FOR|WITH|"
    r"BETWEEN|UNTIL|INSTEAD|[A-Z]{2,12}ED)(?![\w'’])"
)
_NO_STOP = "\0"  # for a moment, before a full stop that is not said
_LINKS = frozenset(["AND", "OR", "TO", "THROUGH", "OF"])
_WHEN = frozenset(["TODAY", "TONIGHT", "TOMORROW", "YESTERDAY"])
_BEFORE_NAME = frozenset(name.upper() for name in TITLES.values()) | {
    "CHAIRMAN",
    "PREMIER",
    "LEADER",
}
_LAST_WORD = pattern_of(r"(?P<word>[A-Z]+)[ ,]{1,2}\Z")
_AFTER_STOP = pattern_of(r"\.\s[A-Z]{3}")
_TWO_NAMES = pattern_of(r"(?:\A|[^\w'’])(?P<first>[A-Z]{2,12}) (?P<second>[A-Z]{2,12})[ -]\Z")
_SYLLABLE = pattern_of("[AEIOU][NLM]|[B-DF-HJ-NP-TV-Z][AEIOU]")


def _is_of_a_name(match: re.Match[str]) -> bool:
    """Whether a syllable ends a name of three, "KIM JONG UN", the second of which no list has."""
    if not _SYLLABLE.fullmatch(match.group()) or match.group() in _SHORT_WORDS:
        return False
    found = _TWO_NAMES.search(match.string[: match.start()], max(0, match.start() - 28))
    if found is None or not {found["first"], found["second"]}.isdisjoint(_SHORT_WORDS | _SPELLED):
        return False
    return not lexicon.is_word(found["second"]) and not _is_unsayable(found["second"])


def _is_street(match: re.Match[str], after: str) -> bool:
    """Whether the name of a street stands before "ST": "AT ELM ST", "ELM ST TODAY"."""
    placed = _PLACED.search(match.string[: match.start()], max(0, match.start() - 40))
    if placed is None or placed["name"] in _SHORT_WORDS:
        return False
    return bool(placed["lead"]) or not after or after in _SHORT_WORDS or after in _WHEN


def _is_saint(match: re.Match[str]) -> bool:
    """Whether a name follows "ST.", and none that a street could have stands before."""
    if not _AFTER_STOP.match(match.string, match.end()):
        return False
    found = _LAST_WORD.search(match.string[: match.start()], max(0, match.start() - 24))
    return found is None or found["word"] in _SHORT_WORDS


def _is_name(match: re.Match[str], after: str) -> bool:
    """Whether a numeral is a person, "XI": it follows a title, a small word or nothing, or stands
    before a word that is a name alone, and behind none that is counted."""
    if not after or after in _SHORT_WORDS or not lexicon.is_word(match.group()):
        return False
    found = _LAST_WORD.search(match.string[: match.start()], max(0, match.start() - 24))
    if not lexicon.is_word(after) and after not in _SPELLED and not _is_unsayable(after):
        return found is None or not is_counted(found["word"])
    return found is None or found["word"] in _BEFORE_NAME or found["word"] in _SHORT_WORDS


def _pair(match: re.Match[str]) -> str | None:
    words = match.group().split(" ")
    is_said = all(
        word in ("I", "A", "AM", "US")
        or (index == 0 and _NUMERAL.fullmatch(word) and lexicon.is_word(word))
        or (index == 1 and _NUMERAL.fullmatch(word) and is_counted(words[0]))
        or re.search("['’]", word)
        or _is_plainly_word(word)
        for index, word in enumerate(words)
    )
    return _shouted(match) if is_said else None


def _contraction(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 2) : match.start()].rstrip()
    is_first = not before or before[-1] in ".!?"
    is_capital = is_first or match.group()[1] in "'’"
    return match.group().capitalize() if is_capital else match.group().lower()


def _is_plainly_word(letters: str) -> bool:
    is_long = len(letters) > 3 and letters not in _SPELLED and not _is_unsayable(letters)
    return letters in _SHORT_WORDS or is_long


_TITLED_NAME = pattern_of(r"(?:(?<=[A-Z][a-z]\. )|(?<=\b[MDS][rst] )|(?<=\bMrs ))[a-z]")
_ONSETS_LIST = (
    "bl br ch chr cl cr dr dw fl fr gh gl gn gr kl kn kr ll ph phr pl pr ps pt rh sc sch scr "
    "sh shr sk "
    "sl sm sn sp sph spl spr sq st str sv sw th thr thw tr ts tw wh wr zh"
)
_ONSETS = frozenset(_ONSETS_LIST.upper().split())
_CODAS_LIST = (
    "ck ct dd dt ff ft gg gh gn ld lf lk ll lm ln lp lt lc lb lv mb mf mm mn mp nc nd ng nk nn "
    "nt nx "
    "ph pp pt rb rc rd rf rg rk rl rm rn rp rr rt rv rx sc sh sk sm sp ss st ch th tt tz wd wk "
    "wl wn xt zz lz nz rz"
)
_CODAS = frozenset(_CODAS_LIST.upper().split())
_EDGES = pattern_of(r"(?P<onset>[^AEIOUY]*)(?P<rest>[A-Z]*?)(?P<coda>[^AEIOUY]*)\Z")


def _is_unsayable(letters: str) -> bool:
    """Whether a row of capitals cannot be an English word: its vowels or its edges say so."""
    if letters[0] == "X":
        return len(letters) < 5
    edges = _EDGES.match(letters.partition("'")[0].partition("’")[0])
    if edges is None or len(letters) < 2:
        return False
    onset, coda = edges["onset"], edges["coda"].removesuffix("S") or "S"
    is_odd = len(onset) > 1 and onset not in _ONSETS
    return not edges["rest"] or is_odd or (len(coda) > 1 and coda[-2:] not in _CODAS)


def _acronym(match: re.Match[str]) -> str:
    letters, suffix = match.group("letters"), match.group("suffix") or ""
    if suffix == "s":
        suffix = "'s" if not _is_word(letters) else "s"
    return acronym(letters) + suffix


def _is_word(letters: str) -> bool:
    if letters in _SPELLED:
        return False
    if letters in _SHORT_WORDS:
        return True
    return (
        len(letters) > 3
        and bool(_VOWEL.search(letters))
        and not re.search(r"[^AEIOUY]{5}", letters)
    )


def acronym(letters: str) -> str:
    """How a row of capitals is said: a word, or letter by letter."""
    if letters in _WORDS:
        return _WORDS[letters]
    if _is_word(letters):
        return letters.lower() if letters in _SHORT_WORDS else letters.capitalize()
    return spaced(letters)


def shout(draft: Draft) -> None:
    """Words in lines of capitals become words; acronyms among them stay for the recogniser."""
    if _LOUD_PAIR.search(draft.text) and _LOUD_NEXT.search(draft.text):
        draft.sub(_SHOUT, _shout, "capitals")
        draft.sub(_PAIR, _pair, "capitals")
        draft.sub(_TITLE, lambda m: m.group().capitalize(), "capitals")
    if "'" in draft.text or "’" in draft.text:
        draft.sub(_CONTRACTION, _contraction, "capitals")


_HAS_CAPITALS = InWord("[A-Z]{2}", CAPITAL)
ACRONYMS = (
    Recogniser(
        "acronym",
        CAPITAL,
        pattern_of(r"\bTL;\s?DR\b"),
        lambda m: "T L D R",
        ";",
        InWord("TL;", CAPITAL),
    ),
    Recogniser(
        "acronym", CAPITAL, _IT, lambda m: "I T", search=InWord(r"IT(?<!\w..)(?!\w)", CAPITAL)
    ),
    Recogniser("acronym", CAPITAL, _ACRONYM, _acronym, search=_HAS_CAPITALS),
)
