"""Which language a text is in: by script, then by small words for the Latin script.

Libraries were weighed: lingua is 96 MB, langdetect draws at random, py3langid needs numpy, half a
second and judges "Hello Berlin" with the confidence of a page. Here doubt is an answer: "und".
Knows nothing of what a model speaks.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

from voxcli.text.patterns import pattern_of

_SAMPLE = 6000  # characters looked at
UNKNOWN = "und"

_NAMES = {
    "ar": "Arabic", "bn": "Bengali", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian",
    "it": "Italian", "ja": "Japanese", "ka": "Georgian", "km": "Khmer", "ko": "Korean",
    "lo": "Lao", "ms": "Malay", "my": "Burmese", "nl": "Dutch", "no": "Norwegian", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "yue": "Cantonese", "zh": "Chinese",
    "und": "unknown",
}  # fmt: skip
# Script (first word of a character's Unicode name) -> its largest language, characters a word.
_SCRIPTS = {
    "CJK": ("zh", 1.5), "HIRAGANA": ("ja", 2.0), "KATAKANA": ("ja", 3.0), "HANGUL": ("ko", 3.0),
    "BOPOMOFO": ("zh", 2.0), "CYRILLIC": ("ru", 5.0), "ARABIC": ("ar", 4.0),
    "DEVANAGARI": ("hi", 4.0), "HEBREW": ("he", 4.0), "GREEK": ("el", 5.0), "THAI": ("th", 4.0),
    "BENGALI": ("bn", 4.0), "TAMIL": ("ta", 5.0), "TELUGU": ("te", 5.0), "ARMENIAN": ("hy", 5.0),
    "GEORGIAN": ("ka", 5.0), "KHMER": ("km", 4.0), "MYANMAR": ("my", 4.0), "LAO": ("lo", 4.0),
    "LATIN": ("", 5.0),
}  # fmt: skip

# Small words that are no English words; shared ones ("in", "was", "die", "so") say nothing.
_SMALL_WORDS = {
    "en": "the and of to that is it he you with his they this have from not are but had her she "
    "what we when were there your can said which will would their about out many then them "
    "these some has time look could people than been who its did get made our after into only "
    "other new over just because how all be for was by",
    "de": "der das und ist nicht ein eine einen einem einer ich du wir ihr sie es zu mit auf "
    "für dem den von im auch sich bei nach aus wie noch nur aber oder wenn dass sind haben hat "
    "wird werden heute morgen guten dir mir mich kein keine über vom zum zur wo wer dann schon "
    "sehr geht mein dein ja nein bitte danke unser",
    "fr": "la le les des et est une un dans que qui ne pas pour sur avec il elle nous vous je "
    "tu ils du au aux ce cette ces mais ou où son sa ses leur par plus sont était être avoir "
    "fait comme tout bien très bonjour merci mon ma c'est la qu'il qu'elle n'est j'ai d'une "
    "d'un aujourd'hui l'on",
    "es": "el los las y es una un en que por para con del se su lo como más pero sus le ya este "
    "esta muy cuando también hay donde está son fue hola gracias yo tú nosotros hoy aquí qué "
    "cómo porque al mi tiene no la de",
    "it": "la il lo gli e è una un di che per con non del della dei delle sono si come più ma "
    "anche nel nella questo questa ha ho perché quando dove molto ciao grazie oggi buongiorno "
    "al alla io noi tutto c'è dal dalla le",
    "pt": "o os as e é uma um de que para com não do da dos das em no na por mais como mas foi "
    "ao seu sua você ele ela isso muito também já quando está são olá obrigado hoje eu nós onde "
    "porque pelo pela",
    "nl": "de het een en van ik je dat niet zijn op te met voor er aan maar om ook als dan hij "
    "zij wij bij nog naar uit deze wordt heeft hebben kan geen goed vandaag waar hoe mijn jouw "
    "goede dag",
    "sv": "och det att en ett som på är av för med den till inte jag du han hon vi om har de "
    "var sig så från men också när eller kan idag god tack mycket här där",
    "da": "og det at en et som på er af for med den til ikke jeg du han hun vi om har de var "
    "sig så fra men også når eller kan i dag god tak meget hvor hvad",
    "no": "og det at en et som på er av for med den til ikke jeg du han hun vi om har de var "
    "seg så fra men også når eller kan i dag god takk veldig hvor hva",
    "pl": "i w nie na się jest to że z do jak co o ale po tak za od jego tym dla czy już być "
    "może przez tylko są dzień dobry dziękuję gdzie kiedy bardzo",
    "cs": "a je se na že v s z do to jako by ale po tak za od jeho pro jsem jsou nebo když také "
    "dobrý den kde velmi děkuji",
    "tr": "ve bir bu da de için ile çok ne var ben sen o biz gibi daha ama olarak değil mi "
    "merhaba nasıl bugün teşekkür nerede güzel",
    "ro": "și în este nu de la cu pe un o care pentru din mai sunt dar după când foarte bună "
    "ziua unde",
    "fi": "ja on ei että se hän oli olen mutta kun niin myös minä sinä ovat tämä hyvää päivää "
    "missä kiitos",
    "hu": "a az és nem hogy egy is van ez de meg csak mint volt jó napot nagyon hol köszönöm",
    "id": "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya adalah ke bisa "
    "ada mereka apa selamat",
    "vi": "và là của có không được cho một những các với này trong người đã tôi bạn xin chào rất",
}  # fmt: skip
_DISTINCT = {
    "de": "ßäöü", "fr": "çœêèàùûîôâ", "es": "ñ¿¡", "pt": "ãõ", "pl": "łżźąęśćń", "cs": "řěů",
    "tr": "ğış", "ro": "șță", "hu": "őű", "vi": "ơưđạảấầẩẫậắằẳẵặẹẻẽếềểễệọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    "sv": "åäö", "da": "æøå", "no": "æøå", "fi": "äö",
}  # fmt: skip
_OWN_LETTERS = frozenset(("tr", "pl", "cs", "vi", "hu"))  # one small word is enough beside them
_GREEK = "\u0370-\u03ff\u1f00-\u1fff"
# A Greek letter by itself is a sign ("π r", "Δt"); beside others of its kind it is part of a word.
GREEK_SIGN = pattern_of(
    rf"(?<![{_GREEK}])(?<![{_GREEK}]{{2}} )[\u00b5\u0391-\u03a1\u03a3-\u03a9\u03b1-\u03c9\u03d5]"
    rf"(?![{_GREEK}]| [{_GREEK}]{{2}})"
)
_LATIN_WORD = pattern_of("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+")
_WORD = pattern_of(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
# A letter by itself is a word only before another word: none in "I/O", "A, E" and "A. Z. Smith".
_STRICT_WORD = pattern_of(
    r"[^\W\d_]{2,}(?:['’][^\W\d_]+)?|[^\W\d_]['’][^\W\d_]+|(?<![\w/&.-])[^\W\d_](?=\s[^\W\d_]{2})"
)
_MIN_SCORE = 3
_MIN_SHARE = 0.3


def language_name(code: str) -> str:
    """`"de"` -> "German"; the code itself when it is not known."""
    return _NAMES.get(code, code)


def is_known(code: str) -> bool:
    """Whether a code has a name here."""
    return code in _NAMES


def codes_like(word: str) -> list[str]:
    """Codes of languages whose English names begin as a word: "german" and "ger" are "de"."""
    start = word.casefold()
    return [code for code, name in _NAMES.items() if name.casefold().startswith(start)]


def detect_language(text: str) -> str:
    """ISO 639-1 code of the dominant language, or "und".

    "und" means that nothing speaks for a language: numbers, names, a word or two in the Latin
    script. A few foreign words in an English text do not change the answer.
    """
    sample = text[:_SAMPLE]
    if sample.isascii():
        return _latin(sample)
    weights = script_weights(sample)
    if not weights:
        return UNKNOWN
    script = max(weights, key=lambda name: weights[name])  # the first in the text wins a tie
    if script == "LATIN":
        return _latin(sample)
    code = _SCRIPTS[script][0]
    if code == "zh" and any(
        weights.get(kana, 0) > 0.1 * weights["CJK"] for kana in ("HIRAGANA", "KATAKANA")
    ):
        return "ja"
    return _variant(code, sample)


def script_weights(text: str) -> dict[str, float]:
    """About how many words each script has in the text, in order of appearance."""
    text = GREEK_SIGN.sub(" ", text)
    weights: dict[str, float] = {}
    for char, count in Counter(text).items():
        script = _script(char)
        if script:
            weights[script] = weights.get(script, 0.0) + count / _SCRIPTS[script][1]
    if "LATIN" in weights:
        weights["LATIN"] = float(len(_LATIN_WORD.findall(text)))
    return weights


@lru_cache(maxsize=8192)
def _script(char: str) -> str:
    if not char.isalpha():
        return ""
    name = unicodedata.name(char, "").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
    word = name.split(" ", 1)[0]
    return word if word in _SCRIPTS else ""


def _variant(code: str, sample: str) -> str:
    """Languages that share a script and show it by letters of their own."""
    if code == "ar" and re.search("[پچگژک]", sample):
        return "ur" if re.search("[ٹڈڑںےھ]", sample) else "fa"
    if code == "ar" and re.search("[ٹڈڑںے]", sample):
        return "ur"
    if code == "ru" and re.search("[іїєґ]", sample):
        return "uk"
    return code


@lru_cache(maxsize=1)
def _languages_of_words() -> dict[str, tuple[str, ...]]:
    """Small word -> the languages that have it."""
    found: dict[str, tuple[str, ...]] = {}
    for code, small in _SMALL_WORDS.items():
        for word in dict.fromkeys(small.split()):
            found[word] = (*found.get(word, ()), code)
    return found


def _latin(sample: str) -> str:
    found = _WORD.findall(sample)
    if found and min(map(len, found)) == 1:
        found = _STRICT_WORD.findall(sample)
    if "’" in sample:
        found = [word.replace("’", "'") for word in found]
    languages_of = _languages_of_words()
    kinds: dict[str, int] = {}  # different small words of each language
    hits: dict[str, int] = {}
    counts: dict[str, int] = {}
    for small in map(str.lower, found):
        if small in languages_of:
            counts[small] = counts.get(small, 0) + 1
    for small, count in counts.items():
        for code in languages_of[small]:
            kinds[code] = kinds.get(code, 0) + 1
            hits[code] = hits.get(code, 0) + count
    english_kinds, english_hits = kinds.pop("en", 0), hits.pop("en", 0)
    words = () if sample.isascii() else dict.fromkeys(map(str.lower, found))
    marked = [word for word in words if not word.isascii()]
    most_kinds, most_hits = max(kinds.values(), default=0), max(hits.values(), default=0)
    if not marked and most_kinds < _MIN_SCORE and english_hits >= most_hits:
        return "en" if english_kinds else UNKNOWN
    others = [code for code in _SMALL_WORDS if code != "en"]
    kinds, hits = dict.fromkeys(others, 0) | kinds, dict.fromkeys(others, 0) | hits
    marks = {code: _marks(code, marked) for code in others} if marked else dict.fromkeys(others, 0)
    best = max(others, key=lambda code: (kinds[code] + marks[code], hits[code]))
    evident = kinds[best] + marks[best] >= _MIN_SCORE and (kinds[best] >= 2 or best in _OWN_LETTERS)
    speaking = hits[best] + marks[best]
    is_large = speaking / len(found) >= _MIN_SHARE and speaking > 2 * english_hits
    if evident and is_large and not _is_name(found):
        return best
    return "en" if english_kinds >= 1 and english_hits >= hits[best] / 2 else UNKNOWN


def _is_name(found: list[str]) -> bool:
    """ "Los Angeles de la Cruz": all longer words are capitalised."""
    longer = [word for word in found if len(word) > 3]
    return len(found) < 8 and bool(longer) and all(word[0].isupper() for word in longer)


def _marks(code: str, words: list[str]) -> int:
    """Words with a letter of that language's own, at most two."""
    letters = _DISTINCT.get(code, "")
    return min(2, sum(1 for word in words if any(c in letters for c in word))) if letters else 0
