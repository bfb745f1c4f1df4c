"""What a newcomer types in the first hour: texts, voices by name, help, completion."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import soundfile
from needs import PATIENCE_S
from shell import VOXCLI
from typer.main import get_command

from voxcli import cli
from voxcli.audio.stream_out import StreamWriter
from voxcli.cli import output
from voxcli.cli.habits import OPTIONS, VERBS
from voxcli.engine.base import Setup
from voxcli.errors import EXIT_MODEL, EXIT_OK, EXIT_OUTPUT, EXIT_USAGE
from voxcli.hub import encoder_checksum, resolve_model
from voxcli.voices import VoiceStore
from voxcli.voices.store import bundled_folder

EMMA = Path(__file__).resolve().parents[2] / "samples" / "voices" / "emma.flac"


@pytest.fixture(autouse=True)
def empty_present_folder(own_home: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def text_of(words: list[str], **stdin: Any) -> subprocess.CompletedProcess[str]:
    command = [VOXCLI, "speak", "--dry-run", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **stdin)


# Texts


def test_a_pipe_is_read_without_a_dash() -> None:
    for words in ([], ["-"]):
        assert "1: Piped words." in text_of(words, input="Piped words.").stdout


def test_a_file_on_stdin_is_read_without_a_dash() -> None:
    Path("words.txt").write_text("Words of a file.")
    with open("words.txt") as file:
        assert "1: Words of a file." in text_of([], stdin=file).stdout


def test_a_text_loses_no_letter_to_the_locale() -> None:
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    heard = "1: Na\\xefve caf\\xe9."  # as a terminal of ASCII shows it
    assert heard in text_of(["Naïve café."], env=environ).stdout
    latin = "Naïve café.".encode("latin-1")
    refused = text_of([latin])  # type: ignore[list-item]
    assert (refused.returncode, refused.stdout) == (EXIT_USAGE, "")
    assert "TEXT is not utf-8: 0xef at byte 2" in refused.stderr
    said = text_of([latin, "--encoding", "latin-1"], env=environ)  # type: ignore[list-item]
    assert heard in said.stdout


def test_nothing_to_say_is_a_usage_error_and_waits_for_nobody() -> None:
    done = text_of([], stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (EXIT_USAGE, "")
    assert "no text was given; give TEXT, '-' for stdin, or --file FILE" in done.stderr


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "talk.srt",
            b"1\n00:00:01,000 --> 00:00:02,000\nHello.\n",
            "run: voxcli batch talk.srt -o",
        ),
        ("novel.EPUB", b"PK\x03\x04", "novel.EPUB is a book; to speak it, run: voxcli batch"),
        (
            "a.pdf",
            b"%PDF-1.7\n\xe2\xe3\0",
            "a.pdf is a PDF, not plain text; save it as plain text",
        ),
        ("a.docx", b"PK\x03\x04\x14\0\x8c", "a.docx is a packed document"),
    ],
)
def test_a_file_that_is_no_text_is_not_read_aloud(
    run: Any, name: str, content: bytes, said: str
) -> None:
    Path(name).write_bytes(content)
    code, _, err = run("speak", "--file", name, "-o", "a.wav")
    assert (code, said in err) == (EXIT_USAGE, True), err


@pytest.mark.parametrize("command", ["speak", "stream", "clone"])
def test_a_text_that_names_a_file_asks_for_the_option(command: str, run: Any) -> None:
    Path("letter.txt").write_text("Dear all.")
    words = ["--ref", "letter.txt"] if command == "clone" else []
    code, _, err = run(command, "letter.txt", *words)
    assert code == EXIT_USAGE
    assert "'letter.txt' is a file; to read it aloud, give --file letter.txt" in err
    assert run("speak", "letter.", "--dry-run")[0] == EXIT_OK


@pytest.mark.parametrize("command", ["speak", "stream", "clone"])
def test_words_without_quotes_get_them(command: str, run: Any) -> None:
    code, _, err = run(command, "Hello", "there,", "friends", "--seed", "1")
    assert code == EXIT_USAGE
    assert f'put it in quotes: voxcli {command} "Hello there, friends"' in err


@pytest.mark.parametrize("text", ["-hello", "-5 degrees", "- he said", "-- and left", "--so it is"])
def test_a_text_that_begins_with_a_dash_says_what_to_do(text: str, run: Any) -> None:
    code, _, err = run("speak", text)
    assert code == EXIT_USAGE
    if text != "--so it is":  # an option by all appearance
        assert "put -- before a text that begins with a dash" in err
    assert run("speak", "--dry-run", "--", text)[0] == EXIT_OK


@pytest.mark.parametrize("text", ["Good morning.", "It's $5, is it?"])
def test_a_text_without_a_command_gets_one_that_works(text: str, run: Any) -> None:
    code, _, err = run(text)
    assert code == EXIT_USAGE
    command = err.strip().partition("run: voxcli ")[2]
    assert shlex.split(command) == ["speak", text]


def test_options_behind_two_dashes_are_named(run: Any) -> None:
    code, _, err = run("speak", "--", "-5 degrees", "--dry-run")
    assert code == EXIT_USAGE
    assert "'--dry-run' is behind --" in err
    assert "put options before --" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("speak Hello. --voce x", "no option '--voce'; did you mean '--voice'?"),
        (
            "speak Hello. --speed fast",
            "--speed is 'fast'; give a number; see 'voxcli speak --help'",
        ),
        ("speak Hello. --seed 1.5", "--seed is '1.5'; give a whole number"),
        (
            "speak Hello. --voice",
            "--voice needs a value: --voice VOICE; see 'voxcli speak --help'",
        ),
        ("voices lst", "no command 'lst'; did you mean 'list'? see 'voxcli voices --help'"),
        ("help models inf", "no command 'inf'; did you mean 'info'? see 'voxcli models --help'"),
        ("completion", "bash|zsh|fish is missing; see 'voxcli completion --help'"),
        ("batch rows.csv", "-o FOLDER is missing; see 'voxcli batch --help'"),
        ("models info a b", "too many words: b; put a name with spaces in quotes, or see"),
        ("voices list all", "too many words: all; see 'voxcli voices list --help'"),
        ("speak Hello. --json=1", "--json takes no value; see 'voxcli speak --help'"),
        ("speak Hello. --slots two", "--slots is 'two'; give a whole number"),
        ("speak Hello. --slots 0", "--slots is 0; give 1 or more"),
        ("clone Hello. --voice emma", "no option '--voice'; it is an option of: voxcli speak,"),
        ("speak Hello. --ref me.wav", "no option '--ref'; it is an option of: voxcli clone,"),
        ("speak Hello. -v emma", "-v takes no value, but 'emma' follows it; did you mean '--voice"),
        ("speak --text Hello.", "no option '--text'; TEXT needs none: voxcli speak TEXT"),
        ("speak Hello. --lang en", "no option '--lang'; did you mean '--language'?"),
        ("clone Hello. --reference a.wav", "no option '--reference'; did you mean '--ref'?"),
        ("speak Hello. --gpu", "no option '--gpu'; did you mean '--device cuda'?"),
        ("speak Hello. --outfile a.wav", "no option '--outfile'; did you mean '--output'?"),
        ("speak Hello. -w a.wav", "no option '-w'; did you mean '--output'?"),
        (
            "speak Hello. --speaker_wav a.wav",
            "no option '--speaker_wav'; did you mean '--ref'? it is",
        ),
        ("speak -t Hello.", "no option '-t'; TEXT needs none: voxcli speak TEXT"),
        ("speak --list-voices", "no option '--list-voices'; run: voxcli voices list"),
        ("speak Hello. --max_seconds 3", "no option '--max_seconds'; did you mean '--max-sec"),
        ("speak Hello. --max-seconds 10s", "--max-seconds is '10s'; give a number: 10; see"),
        ("speak Hello. --max-seconds 1:30", "--max-seconds is '1:30'; give a number: 90; see"),
        ("speak Hello. --pause 500ms", "--pause is '500ms'; give a number: 0.5; see"),
        ("speak Hello. --speed 1,2", "--speed is '1,2'; give a number: 1.2; see"),
        ("speak Hello. --speed +50%", "--speed is '+50%'; give a number: 1.5; see"),
        ("speak Hello. --rate 44.1kHz", "--rate is '44.1kHz'; give a whole number: 44100; see"),
        ("speak Hello. --rate 48,000", "--rate is '48,000'; give a whole number: 48000; see"),
        ("batch a.csv -o b --duck-attack-ms 1s", "--duck-attack-ms is '1s'; give a number: 1000"),
        ("models mend mini", "no command 'mend'; it has list, info, verify, pull, remove; see"),
        ("version", "no command 'version'; write voxcli --version"),
        ("list", "no command 'list'; it is a command of: voxcli voices, voxcli models; see"),
        ("speak Hello. --voice me.wav", "no voice 'me.wav'; for the voice of a recording, run: "),
        (
            "--voice emma speak Hello.",
            "no option '--voice'; put it behind the command: voxcli speak Hello. --voice emma",
        ),
    ],
)
def test_misspelt_words_and_values_are_told_what_was_meant(
    words: str, message: str, run: Any
) -> None:
    code, out, err = run(*words.split())
    assert (code, out) == (EXIT_USAGE, "")
    assert f"voxcli: error: {message}" in err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["hello", "there", "-o", "a.wav"], "hello there"),
        (["say", "It's $5."], "It's $5."),
        (["“Good", "morning”"], "Good morning"),
        (["speak", "„Guten", "Tag“", "-q"], "Guten Tag"),
        (["speak", "Hello.", "--style", "‘warm,", "slow’"], "warm, slow"),
        (["speak", "Hello.", "--voice=“emma”"], "emma"),
    ],
)
def test_words_that_belong_together_are_shown_in_quotes_of_a_shell(
    words: list[str], meant: str, run: Any
) -> None:
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (EXIT_USAGE, "", 1)
    hint = err[err.index(";") :]
    assert f'"{meant}"' in hint or shlex.quote(meant) in hint


def test_a_file_without_a_command_gets_the_one_that_reads_it(run: Any) -> None:
    commands = {
        "a.txt": "voxcli speak --file a.txt", "a.csv": "voxcli batch a.csv -o FOLDER",
        "a.srt": "voxcli batch a.srt -o FOLDER", "a.wav": "voxcli clone TEXT --ref a.wav",
    }  # fmt: skip
    for name, command in commands.items():
        Path(name).touch()
        assert f"'{name}' is a file; " in (err := run(name)[2])
        assert command in err


@pytest.mark.parametrize("dash", ["–", "—", "−", "‑"])
@pytest.mark.parametrize("option", ["voice", "dry-run", "speed=2", "voise"])
def test_an_option_with_another_dash_is_not_spoken(dash: str, option: str, run: Any) -> None:
    typed, meant = dash + option, option.replace("voise", "voice")
    for words in ([typed], ["Hello.", typed, "emma"], ["--style", typed], [f"-{typed}"]):
        code, out, err = run("speak", *words)
        assert (code, out) == (EXIT_USAGE, "")
        assert f"{typed}' begins with a dash that no option has; write --{meant}," in err
    for words in (["--", typed], [f"{dash}What voice?"], [f"{dash}Oh."], [f"{dash}5"]):
        assert run("speak", "--dry-run", *words)[0] == EXIT_OK


@pytest.mark.parametrize("typed", ["-voice", "-dry-run", "-output=a.wav", "-quite", "-file"])
def test_a_long_option_with_one_dash_is_not_taken_apart(typed: str, run: Any) -> None:
    code, out, err = run("speak", "Hello.", typed)
    assert (code, out) == (EXIT_USAGE, "")
    assert f"no option '{typed}'; did you mean '--" in err
    assert not list(Path().iterdir())


@pytest.mark.parametrize("next_word", ["--dry-run", "--dryrun", "-q", "-o", "--help", "--voice=a"])
def test_an_option_is_not_the_value_of_another(next_word: str, run: Any) -> None:
    for option, words in (("--ref", ["clone", "Hello."]), ("-o", ["speak", "Hello."])):
        code, out, err = run(*words, option, next_word)
        assert (code, out) == (EXIT_USAGE, "")
        assert f"{option} needs a value, and '{next_word}' follows it" in err
    assert "cannot read --dry-run" in run("clone", "Hello.", "--ref=--dry-run")[2]
    assert "--pause is -1" in run("speak", "Hello.", "--pause", "-1")[2]
    assert "no voice '-voice'" in run("speak", "Hello.", "--voice", "-voice")[2]


@pytest.mark.parametrize("option", ["--voice", "--bits", "--language", "--engine", "--model"])
def test_an_empty_value_is_named(option: str, run: Any) -> None:
    for words in ([option, ""], [f"{option}="]):
        code, out, err = run("speak", "Hello.", *words)
        assert (code, out) == (EXIT_USAGE, "")
        assert f"{option} is empty; give " in err
    assert run("speak", "Hello.", "--style", "", "--dry-run")[0] == EXIT_OK
    for option in ("--map", "--cast"):
        assert f"{option} is empty; give " in run("batch", "a.csv", "-o", "out", option, "")[2]


@pytest.mark.parametrize(
    "words",
    [
        ["-v", "voices", "list"],
        ["voices", "-v", "list"],
        ["voices", "list", "-vv"],
        ["speak", "Hi.", "--dry-run", "-qv"],
        ["speak", "-v", "Hi.", "--dry-run", "--verbose"],
    ],
)
def test_steps_are_shown_wherever_that_is_asked(words: list[str]) -> None:
    done = subprocess.run([VOXCLI, *words], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == EXIT_OK
    assert " ms  voxcli" in done.stderr or "voices" in words


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("-o a.wav -o b.wav", "'-o b.wav' is used, and not '-o a.wav', which is given too"),
        ("--voice emma --voice=hugo", "'--voice hugo' is used, and not '--voice emma',"),
        ("--seed 1 -q --seed 2 --seed 2", "'--seed 2' is used, and not '--seed 1',"),
        ("--voice emma -q --quiet --voice emma", ""),
    ],
)
def test_of_an_option_that_is_given_twice_one_is_named(words: str, told: str, run: Any) -> None:
    code, _, err = run("speak", "Hello.", "--dry-run", *words.split())
    assert code == EXIT_OK
    assert err.count("warning") == bool(told)
    assert told in err


def test_of_two_answers_to_one_question_the_last_counts(run: Any) -> None:
    Path("a.csv").write_text("text\nHello.\n")
    words = ["batch", "a.csv", "-o", "out", "--dry-run", "--strict", "--keep-going"]
    assert "'--keep-going' is used, and not '--strict', which" in run(*words)[2]


def test_repeated_values_of_a_list_are_all_used(run: Any) -> None:
    Path("a.csv").write_text("said,who\nHello.,emma\n")
    code, _, err = run(
        *["batch", "a.csv", "-o", "out", "--dry-run", "--map", "text=said", "--map", "voice=who"]
    )
    assert (code, "is used" in err) == (EXIT_OK, False)


@pytest.mark.parametrize("words", ["speak -f", "clone Hi. --ref", "batch -o out", "voices import"])
def test_a_file_that_is_not_there_has_its_neighbours_name(words: str, run: Any) -> None:
    Path("inside").mkdir()
    for name in ("inside/Lines.csv", "inside/voice.wav"):
        Path(name).touch()
    for typed, meant in {"inside/lines.csv": "Lines.csv", "inside/voise.wav": "voice.wav"}.items():
        if words.startswith("batch") and typed.endswith("wav"):
            continue
        code, out, err = run(*words.split(), typed)
        assert (code, out) == (EXIT_USAGE, "")
        assert f"no such file or directory; did you mean 'inside/{meant}'?" in err
    assert "did you mean" not in run(*words.split(), "inside/other.csv")[2]
    assert "download it first" in run(*words.split(), "https://example.org/a.csv")[2]


def test_a_home_that_no_shell_opened_is_opened(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a sign: --file=~/a.txt."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("Hello there.")
    (tmp_path / "a.csv").write_text("speaker,voice\nAnn,emma\n")
    (tmp_path / "b.csv").write_text("speaker,text\nAnn,Hello.\n")
    for words in (
        ["speak", "--file=~/a.txt", "-o", "~/b.wav", "--subtitles=~/b.srt"],
        ["batch", "~/b.csv", "-o", "~/out", "--cast=~/a.csv"],
    ):
        assert run(*words, "--dry-run")[0] == EXIT_OK
    monkeypatch.setenv("VOXCLI_LEXICON", "~/none.csv")
    assert f"cannot read {tmp_path}/none.csv" in run("speak", "Hi.", "--dry-run")[2]


def test_standard_input_is_a_dash_for_file_too() -> None:
    done = text_of(["-f", "-"], input="Piped words.")
    assert (done.returncode, done.stdout.splitlines()[0]) == (EXIT_OK, "1: Piped words.")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"%PDF-1.4\n\xe2", "a PDF"), (b"{\\rtf1 Hello}", "a document in RTF"),
        (b"PK\x03\x04abc\0", "a packed document"), (b"RIFF\0\0\0\0WAVE", "a recording"),
    ],
)  # fmt: skip
def test_a_document_is_not_taken_for_a_text(content: bytes, what: str, run: Any) -> None:
    Path("a.txt").write_bytes(content)
    Path("a.csv").write_bytes(content)
    for words in (["speak", "-f", "a.txt"], ["batch", "a.csv", "-o", "out"]):
        code, out, err = run(*words)
        assert (code, out) == (EXIT_USAGE, "")
        assert f" is {what}" in err
        assert "not plain text; save it as plain text" in err
    Path("a.txt").write_text("RIFF is a word of four letters, and %PDF is one too.")
    assert run("speak", "-f", "a.txt", "--dry-run")[0] == EXIT_OK


def test_a_table_that_is_spoken_as_one_text_is_named(run: Any) -> None:
    for name in ("a.srt", "a.csv", "a.jsonl"):
        Path(name).write_text("One day.\n")
        assert f"run: voxcli batch {name} -o FOLDER" in run("speak", "-f", name, "--dry-run")[2]
    Path("a.md").write_text("One day.\n")
    assert run("speak", "-f", "a.md", "--dry-run")[2] == ""


def test_what_other_programs_call_something_is_there() -> None:
    commands = [cli.load(name) for name in cli.COMMANDS]
    below = [each for command in commands for each in getattr(command, "commands", {}).items()]
    everywhere = [*commands, *(command for _, command in below), get_command(cli.app)]
    options = {name for each in everywhere for option in each.params for name in option.opts}
    assert {option.split()[0] for option in OPTIONS.values()} <= options
    assert {verb for verbs in VERBS.values() for verb in verbs} <= {name for name, _ in below}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("speak Hello. a.wav", "before 'a.wav'; write -o a.wav"),
        ("clone Hello. here.wav", "before 'here.wav'; write --ref here.wav"),
        ("voices add me here.wav", "before 'here.wav'; write --ref here.wav"),
        ("voices export emma a.voice", "before 'a.voice'; write -o a.voice"),
        ("batch a.csv here.wav -o out", "'here.wav'; write --ref here.wav"),
        ("batch a.csv b.csv -o out", "too many files: b.csv; 'voxcli batch' takes one at a time"),
        ("voices rm emma", "no command 'rm'; did you mean 'remove'?"),
        ("models download mini", "no command 'download'; did you mean 'pull'?"),
        ("models show mini", "no command 'show'; did you mean 'info'?"),
        ("voices info emma", "no command 'info'; did you mean 'show'?"),
        ("help speak Hello.", "too many words: Hello.; name one command"),
        ("help models list all", "too many words: all; name one command"),
        ("help nope", "no command 'nope'; see 'voxcli --help'"),
        ("speak --version", "no option '--version'; write voxcli --version"),
        ("completion --shell bash", "no option '--shell'; see 'voxcli completion --help'"),
        ("batch a.csv -o out --resume", "leave it out: the same command goes on where it stopped"),
        ("batch a.csv -o -", "--output is '-', but it is not for a pipe; give the name of a"),
        ("voices import -", "FILE is '-', but it is not for a pipe; give the name of a file"),
        ("bench --csv -", "--csv is '-', but it is not for a pipe; give the name of a file"),
        ("serve --host localhost:80", "write --host localhost --port 80"),
        ("batch a.csv -o out --map a=b text=c", "before 'text=c'; write --map text=c"),
        ("serve --stop --port 9000", "--host and --port are of no use with --stop and --status"),
        ("batch a.csv -o a.mp3", "-o is 'a.mp3', but a batch is many files; give a folder"),
        ("batch - -o out", "INPUT is '-', but it is not for a pipe; give the name of a file"),
        ("batch a.srt -o out --delimiter ;", "--delimiter is given, but a.srt is not a CSV"),
        ("--text Hello.", "no option '--text'; TEXT needs none: voxcli speak TEXT"),
        ("SPEAK Hello.", "no command 'SPEAK'; did you mean 'speak'?"),
        ("benchmark", "no command 'benchmark'; did you mean 'bench'?"),
        ("speak Hi. --rate +50%", "give the sample rate in Hz; for the tempo, write --speed 1.5"),
        ("speak Hi. --voice = emma", "--voice needs a value, and '=' follows it; write NAME=VAL"),
        ("speak Hi. voice=emma", "'voice=emma' is no option; write --voice emma"),
        ("speak Hi. -o=a.wav", "'-o=a.wav' has a sign in it; write -o a.wav"),
        ("speak Hi. --no-overwrite", "no option '--no-overwrite'; leave --overwrite out"),
        ("speak Hi. -- --voice emma", "'--voice' is behind --, where all words are text"),
        ("speak -- Hi there -q", "'-q' is behind --, where all words are text"),
        ("speak -- Hi there", 'put it in quotes: voxcli speak "Hi there"'),
        ("speak -f out.wav", "to write the speech there, give -o out.wav"),
        ("speak Hi. --engine localhost:80", "did you mean 'http://localhost:80'? use auto,"),
        ("speak Hi. --voice en-US-EmmaNeural", "did you mean 'emma'? see"),
        ("speak Hi. --language english", "did you mean 'en'? it speaks en (English); leave"),
        ("speak Hi. --language xx", "no language 'xx' in model 'mini'; it speaks en (English)"),
    ],
)
def test_habits_of_other_programs_are_told_what_to_type(words: str, told: str, run: Any) -> None:
    for name in ("a.csv", "b.csv", "here.wav"):
        Path(name).write_text("text\nHello.\n")
    Path("a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHello.\n")
    code, out, err = run(*words.split())
    assert (code, out, err.count("\n")) == (EXIT_USAGE, "", 1)
    assert told in err


def test_spaces_of_a_pasted_command_are_told(run: Any) -> None:
    for typed in ("\u00a0--voice", " --dry-run", "\u2009-q"):
        code, out, err = run("speak", "Hello.", typed)
        assert (code, out) == (EXIT_USAGE, "")
        assert f"has a space in it that no option has; write {typed.strip()}," in err
    code, _, err = run("speak", "Hello.", " ")  # from "\\ " at the end of a line
    assert (code, "a backslash at the end of a line" in err) == (EXIT_USAGE, True)
    for text in (" - he said", " -5", " —so"):
        assert run("speak", text, "--dry-run")[0] == EXIT_OK


@pytest.mark.parametrize(("name", "delimiter"), [("semicolon", ";"), ("tab", "\t"), (r"\t", "\t")])
def test_a_delimiter_has_a_name(name: str, delimiter: str, run: Any) -> None:
    Path("a.csv").write_text(f"text{delimiter}voice\nOne, two.{delimiter}emma\n")
    words = ["batch", "a.csv", "-o", "out", "--dry-run", "--delimiter", name]
    assert "One, two." in run(*words)[1]


@pytest.mark.parametrize("words", ["bench --save-audio", "batch a.csv -o out --stems"])
def test_a_file_where_a_folder_is_wanted_is_told_before_a_model_loads(words: str, run: Any) -> None:
    Path("a.csv").write_text("text\nHello.\n")
    code, out, err = run(*words.split(), "a.csv")
    assert (code, out) == (EXIT_OUTPUT, "")
    assert err.endswith("error: a.csv is a file, not a folder; choose another folder\n")
    assert not Path("out").exists()


@pytest.mark.parametrize("words", ["--help speak", "-h voices add", "voices --help add"])
def test_help_before_a_command_is_that_commands(words: str, run: Any) -> None:
    command = [word for word in words.split() if not word.startswith("-")]
    assert run(*words.split()) == run(*command, "--help")


def test_each_option_says_what_it_needs_in_voxclis_own_words(run: Any) -> None:
    seen = set()
    for name in ("speak", "voices", "models"):
        command = cli.load(name)
        leaves = {(name, below): each for below, each in getattr(command, "commands", {}).items()}
        for words, each in (leaves or {(name,): command}).items():
            for parameter in each.params:
                option = parameter.opts[0]
                if parameter.param_type_name == "argument" or option in seen:
                    continue
                seen.add(option)
                wrong = [f"{option}=1"] if parameter.is_flag else [option]
                code, out, err = run(*words, *wrong)
                takes = "takes no value" if parameter.is_flag else f"needs a value: {option} "
                assert (code, out) == (EXIT_USAGE, "")
                assert err.startswith(f"voxcli: error: {option} {takes}")
                assert f"see 'voxcli {' '.join(words)} --help'" in err


@pytest.mark.parametrize(
    "words", ["speak Hello. --subtitles", "clone Hello. --ref", "speak --file", "batch -o out"]
)
def test_an_empty_name_is_not_taken_for_the_present_folder(words: str, run: Any) -> None:
    code, out, err = run(*words.split(), "")
    assert (code, out) == (EXIT_USAGE, "")
    assert "is empty; give the name of a file or folder" in err


# Voices


def test_bundled_voices_are_listed_and_speak_with_the_bundled_model(run: Any) -> None:
    names = VoiceStore().bundled()
    assert len(names) >= 4
    listed = json.loads(run("voices", "list", "--json")[1])["voices"]
    assert [row["name"] for row in listed if row["kind"] == "bundled"] == names
    files = resolve_model("mini")
    for name in names:
        voice = VoiceStore().find(name)
        assert [each.encoder for each in voice.encodings] == [encoder_checksum(files)]
        assert voice.facts["description"]
        assert voice.consent
        assert run("speak", "Hello.", "--voice", name.upper(), "--dry-run")[0] == EXIT_OK


def test_every_bundled_voice_is_in_the_notice() -> None:
    notice = (Path(__file__).parents[2] / "NOTICE").read_text("utf-8")
    part = notice.partition("The bundled voices")[2].partition("\n\n")[0]
    assert all(name in part for name in VoiceStore().bundled())


def test_a_voice_of_ones_own_takes_the_place_of_a_bundled_one(run: Any) -> None:
    theirs = VoiceStore().path("mia")
    code, out, err = run("voices", "import", str(theirs), "--name", "Emma")
    assert (code, out) == (EXIT_OK, "Emma\n"), err
    assert "emma" not in VoiceStore().bundled()
    assert VoiceStore().find("emma").duration_s == VoiceStore().find("mia").duration_s
    assert run("voices", "remove", "emma")[:2] == (EXIT_OK, "emma\n")
    assert "emma" in VoiceStore().bundled()


def test_bundled_voices_stay_as_they_are(run: Any) -> None:
    before = {path: path.read_bytes() for path in bundled_folder().iterdir()}
    for words in (("remove", "emma"), ("rename", "emma", "ada")):
        code, _, err = run("voices", *words)
        assert code == EXIT_USAGE
        assert "voice 'emma' comes with voxcli" in err
    assert {path: path.read_bytes() for path in bundled_folder().iterdir()} == before


def test_a_voice_is_renamed(run: Any) -> None:
    run("voices", "import", str(VoiceStore().path("mia")), "--name", "one")
    assert run("voices", "rename", "one", "Two")[:2] == (EXIT_OK, "Two\n")
    assert run("voices", "rename", "two", "TWO")[0] == EXIT_OK
    assert VoiceStore().names() == ["TWO"]
    assert VoiceStore().find("two").name == "TWO"
    run("voices", "import", str(VoiceStore().path("mia")), "--name", "three")
    code, _, err = run("voices", "rename", "three", "two")
    assert (code, VoiceStore().names()) == (EXIT_USAGE, ["three", "TWO"])
    assert "voice 'two' exists already" in err
    assert run("voices", "rename", "three", "a/b")[0] == EXIT_USAGE


def test_a_voice_that_hides_a_bundled_one_is_told(run: Any) -> None:
    said = "it is used in place of the bundled voice 'Emma' until you remove or rename it"
    mia = str(VoiceStore().path("mia"))
    assert said in run("voices", "import", mia, "--name", "Emma")[2]
    assert said not in run("voices", "rename", "emma", "one")[2]
    assert said in run("voices", "rename", "one", "Emma")[2]


def test_messages_about_voices_name_no_file_of_the_store(run: Any, tmp_path: Path) -> None:
    theirs = str(VoiceStore().path("mia"))
    said = [run("voices", "import", theirs, "--name", "own") for _ in range(2)]
    VoiceStore().path("own").write_bytes(b"no profile")
    said += [run("voices", verb, "own") for verb in ("show", "export")]
    said += [run("speak", "Hello.", "--voice", "own"), run("voices", "list")]
    assert [code for code, _, _ in said] == [0, EXIT_USAGE, EXIT_MODEL, EXIT_MODEL, EXIT_MODEL, 0]
    for _, out, err in said:
        assert str(tmp_path / "data") not in out + err
    assert "voice 'own' is damaged" in said[2][2]


def test_a_voice_is_described_in_words(run: Any) -> None:
    code, out, _ = run("voices", "show", "emma")
    assert code == EXIT_OK
    assert out.startswith("emma: a woman")
    assert "facts." not in out
    assert str(bundled_folder()) not in out


# Models


def test_a_downloaded_model_is_removed_whole(run: Any, tmp_path: Path) -> None:
    kept, gone = (tmp_path / "hub" / f"models--openbmb--{name}" for name in ("Other", "VoxCPM2"))
    for folder in (kept, gone):
        (folder / "blobs").mkdir(parents=True)
        (folder / "blobs" / "a.incomplete").write_bytes(b"x" * 100)
    code, out, _ = run("models", "remove", "openbmb/VoxCPM2", "--json")
    assert (code, json.loads(out)["freed_bytes"]) == (EXIT_OK, 100)
    assert (kept.is_dir(), gone.exists()) == (True, False)
    assert run("models", "remove", "openbmb/VoxCPM2")[0] == EXIT_MODEL


def test_what_was_not_downloaded_is_not_removed(run: Any) -> None:
    Path("mine").mkdir()
    for name in ("mini", "./mine", "mine"):
        assert run("models", "remove", name)[0] == EXIT_USAGE
    for name in ("../hub/x", "no-owner", "a/b/c", "a/.."):
        assert run("models", "remove", name)[0] == EXIT_MODEL
    assert Path("mine").is_dir()


# A WAV on stdout


@pytest.mark.parametrize("bits", ["8", "16", "24", "32f"])
def test_a_file_behind_stdout_gets_a_header_with_its_length(bits: str, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with open(path, "wb", buffering=0) as file:
        file.write(b"")
        with StreamWriter(file, 16_000, bits=bits) as writer:
            import numpy as np

            writer.write(np.zeros(1_001, np.float32))
        file.write(b"behind it")
    assert soundfile.info(path).frames == 1_001
    assert path.read_bytes().endswith(b"behind it")
    assert b"\xff\xff\xff\xff" not in path.read_bytes()[:60]


@pytest.mark.skipif(os.name != "posix", reason="needs >>")
def test_what_was_in_a_file_before_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with open(path, "ab", buffering=0) as file, StreamWriter(file, 16_000) as writer:
        import numpy as np

        writer.write(np.zeros(10, np.float32))
    assert path.read_bytes().startswith(b"before" + b"RIFF\xff\xff\xff\xff")


# Help


@pytest.mark.parametrize("words", [[], ["speak"], ["voices", "add"], ["bench"]])
def test_help_of_a_command_is_what_its_option_shows(words: list[str], run: Any) -> None:
    assert run("help", *words) == run(*words, "--help")


def test_help_of_no_command_says_so(run: Any) -> None:
    code, _, err = run("help", "speek")
    assert code == EXIT_USAGE
    assert "did you mean 'speak'?" in err


def test_options_stand_in_panels(run: Any) -> None:
    _, out, _ = run("speak", "--help")
    panels = [line[:-1] for line in out.splitlines() if line.endswith(":") and line[0].isalpha()]
    assert panels[:5] == ["Arguments", "Text", "Output", "Voice", "Model parameters"]
    assert panels[5:] == ["Engine", "Options"]
    assert out.index("Voice:") < out.index("--voice") < out.index("Model parameters:")


def test_device_means_the_same_everywhere(run: Any) -> None:
    helps = [run(command, "--help")[1] for command in ("speak", "stream", "batch", "serve")]
    assert all("--device DEVICE" in help for help in helps)
    meanings = {" ".join(help.partition("--device DEVICE")[2].split())[:30] for help in helps}
    assert len(meanings) == 1


@pytest.mark.parametrize("words", ["-v", "-v -v", "--", "-v --", "--verbose"])
def test_options_without_a_command_are_told_so(words: str, run: Any) -> None:
    code, _, err = run(*words.split())
    assert (code, err) == (2, "voxcli: error: no command was given; see 'voxcli --help'\n")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_verbose_works_wherever_it_stands(place: int) -> None:
    words = ["speak", "Hello.", "--dry-run"]
    words.insert(place, "-v")
    done = subprocess.run(
        [VOXCLI, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert " ms  voxcli.engine.choose: engine: native, model mini\n" in done.stderr
    assert str(bundled_folder().parent) not in done.stderr


def test_the_step_of_loading_is_told_in_words() -> None:
    setup = Setup("mini", "a card", "cuda:0", "bf16", 1, 1.5, 0.25, 3, 0.5, 2_000_000_000)
    assert str(setup) == (
        "mini is ready on a card (cuda:0), bf16, 1 thread, 3 CUDA graphs in 0.50 s, 2.00 GB; "
        "imports 0.25 s, loading 1.50 s"
    )
    assert "2 threads, kernels AVX2;" in str(Setup("m", "a", "cpu", "fp32", 2, 0, kernels="AVX2"))


# Outputs that cannot be


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("batch rows.csv -o a.wav", "a.wav is a file, not a folder; choose another folder"),
        ("batch rows.csv -o a.wav/in", "a.wav is a file, not a folder; choose another folder"),
        ("voices export emma -o .", ". is a folder; give a file in it: voice.safetensors"),
        ("voices export emma -o . --overwrite", ". is a folder; give a file in it"),
        ("voices export emma -o no/emma.bin", "the folder no does not exist; run: mkdir -p 'no'"),
        ("voices export emma -o a.wav/in", "a.wav is a file, not a folder"),
    ],
)
def test_files_for_folders_and_folders_for_files_are_told_apart(
    words: str, message: str, run: Any
) -> None:
    Path("rows.csv").write_text("text\nHello.\n")
    Path("a.wav").write_bytes(b"mine")
    code, out, err = run(*words.split())
    assert (code, out) == (EXIT_OUTPUT, "")
    assert f"voxcli: error: {message}" in err
    assert Path("a.wav").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "batch a.csv -o out --mix out/0001.wav",
            "--mix would write out/0001.wav, which is the file of row 1",
        ),
        ("batch a.csv -o out --mix out/../out/0002.wav", "which is the file of row 2"),
        (
            "batch a.csv -o out --mix m.flac --bed m.flac",
            "--mix would write m.flac, which is the bed",
        ),
        (
            "batch a.srt -o out --subtitles a.srt",
            "--subtitles would write a.srt, which is the table itself",
        ),
        ("batch a.csv -o out --subtitles out/report.json", "which is a report"),
        ("batch b.csv -o out --mix m.flac", "which is a recording of the table"),
        (
            "clone Hello. --ref m.flac -o ./m.flac",
            "-o would write ./m.flac, which is the recording",
        ),
    ],
)
def test_what_a_command_reads_or_writes_is_never_written_over(
    words: str, message: str, run: Any
) -> None:
    Path("a.csv").write_text("text\nHello.\nGo on.\n")
    Path("b.csv").write_text("text,ref\nHello.,m.flac\n")
    Path("a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHello.\n")
    shutil.copy(EMMA, "m.flac")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    code, out, err = run(*words.split(), "--overwrite", "--seed", "1")
    assert (code, out) == (EXIT_USAGE, "")
    assert message in err
    assert before == {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}


def without_roots_rights() -> list[str]:
    """What goes before a command to which folders are shut; a skip where root cannot have that."""
    if os.geteuid() != 0:
        return []
    rights = "-dac_override,-dac_read_search"
    command = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
    if shutil.which("setpriv"):
        listed = subprocess.run([*command, "ls", "shut"], capture_output=True, timeout=PATIENCE_S)
        if b"denied" in listed.stderr:
            return command
    pytest.skip("root may open all folders here")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("speak Hello. --model shut/model --dry-run", EXIT_USAGE),
        ("speak Hello. --subtitles shut/a.srt --dry-run", EXIT_OUTPUT),
        ("clone Hello. --ref shut/a.wav --dry-run", EXIT_USAGE),
        ("batch shut/a.csv -o out", EXIT_USAGE),
        ("voices export emma -o shut/in/a.bin", EXIT_OUTPUT),
    ],
)
def test_a_folder_that_may_not_be_opened_is_told_in_one_line(words: str, code: int) -> None:
    Path("shut").mkdir(mode=0)
    command = [*without_roots_rights(), VOXCLI, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (code, "")
    assert re.fullmatch(r"voxcli: error: cannot \w+ shut/.*: permission denied; .*\n", done.stderr)


def test_bundled_voices_speak_though_saved_ones_cannot_be_read(tmp_path: Path, run: Any) -> None:
    """A link to itself is shut to root too."""
    saved = tmp_path / "data" / "voxcli" / "voices"
    saved.parent.mkdir(parents=True)
    saved.symlink_to(saved)
    code, out, err = run("voices", "list")
    assert (code, out.count(" bundled ")) == (EXIT_OK, 6)
    assert f"warning: cannot read the saved voices in {saved}: " in err
    Path("a.csv").write_text("text,voice\nOne.,emma\nTwo.,hugo\nThree.,emma\n")
    told = {
        "speak Hello. --voice emma --dry-run": "'emma'",
        "batch a.csv -o out --dry-run": "'emma' and 'hugo'",
        "voices show emma": "'emma'",
    }
    for words, names in told.items():
        code, _, err = run(*words.split())
        assert (code, err.count("cannot read the saved voices")) == (EXIT_OK, 1)
        assert f", so voxcli takes {names} as bundled with voxcli; make the folder yours" in err
    code, _, err = run("speak", "Hello.", "--voice", "reader", "--dry-run")
    assert code == EXIT_MODEL
    assert f"error: cannot read the saved voices in {saved}: " in err


def test_what_is_no_voice_is_told_in_voxclis_own_words(run: Any) -> None:
    Path("letter.txt").write_text("Dear all.")
    code, _, err = run("voices", "import", "letter.txt")
    assert code == EXIT_USAGE
    assert "letter.txt is damaged, or not a voice profile; add the voice again" in err


# Completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_completion_for_a_shell(shell: str, run: Any) -> None:
    code, out, _ = run("completion", shell)
    assert code == EXIT_OK
    assert f"complete_{shell}" in out
    assert run("completion", f"/usr/bin/{shell.upper()}")[1] == out
    assert run("completion", "tcsh")[0] == EXIT_USAGE


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("voxcli vo", "voices"),
        ("voxcli voices ren", "rename"),
        ("voxcli speak --raw", "--raw-text"),
        ("voxcli speak --voice em", "emma"),
        ("voxcli speak --model min", "mini"),
        ("voxcli models info min", "mini"),
        ("voxcli completion zs", "zsh"),
        ("voxcli voices show em", "emma"),
        ("voxcli help mod", "models"),
        ("voxcli help voices ren", "rename"),
        ("voxcli batch a.csv -o b --overlap sh", "shift"),
        ("voxcli batch a.csv -o b --loudness au", "audiobook"),
    ],
)
def test_bash_is_told_what_may_follow(line: str, wanted: str) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    environ = {**os.environ, **words, "_VOXCLI_COMPLETE": "complete_bash"}
    done = subprocess.run([VOXCLI], env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout.split()) == (EXIT_OK, [wanted])


@pytest.mark.parametrize(
    ("words", "cursor", "wanted"),
    [
        (["speak", "--voice", "=", "em"], 4, "emma"),
        (["speak", "Hi there", "--model", "=", "min", "-q"], 5, "mini"),
        (["batch", "a.csv", "--seed", "=", "3", "--overlap", "=", ""], 8, "mix"),
        (["batch", "a.csv", "--overlap", "="], 4, "mix"),
    ],
)
def test_bash_completes_a_value_behind_a_sign(words: list[str], cursor: int, wanted: str) -> None:
    """It takes the sign for a word."""
    asked = {"COMP_WORDS": "\n".join(["voxcli", *map(shlex.quote, words)]).replace("''", "")}
    environ = {**os.environ, **asked, "COMP_CWORD": str(cursor)}
    environ["_VOXCLI_COMPLETE"] = "complete_bash"
    done = subprocess.run([VOXCLI], env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == EXIT_OK
    assert done.stdout.split()[0] == wanted


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_option_with_the_value(shell: str) -> None:
    for line, wanted in {
        "voxcli speak --voice=em": "emma",
        "voxcli batch --overlap=": "mix",
    }.items():
        asked = {"_VOXCLI_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
        environ = {**os.environ, **asked, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        done = subprocess.run(
            [VOXCLI], env=environ, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == EXIT_OK
        assert line.split()[-1].partition("=")[0] + f"={wanted}" in done.stdout


# While it starts


def test_a_small_model_without_a_gpu_is_no_reason_to_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from voxcli.engine.native.device import resolve_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    small = sum(path.stat().st_size for path in resolve_model("mini").files)
    assert "GPU" not in (resolve_device("auto", small).warning or "")
    assert "no GPU" in (resolve_device("auto", 5_000_000_000).warning or "")


class _Terminal:
    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_a_terminal_is_told_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(output.sys, "stderr", terminal)
    monkeypatch.setattr(output, "SPINNER_DELAY_S", 0.0)
    monkeypatch.setattr(output, "LIVE_INTERVAL_S", 0.01)
    with output.Spinner("starting"):
        _until(lambda: "starting (" in terminal.text)
        logging.getLogger("voxcli.engine.native.engine").info("loading %s", "mini")
        _until(lambda: "loading mini (" in terminal.text)
    assert terminal.text.endswith("\r")
    with output.Spinner("starting", is_quiet=True):
        logging.getLogger("voxcli.engine.native.engine").info("loading qwen")
    assert "qwen" not in terminal.text


def _until(condition: Any) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)
