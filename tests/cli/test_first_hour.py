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

from voxcli import cli
from voxcli.audio.stream_out import StreamWriter
from voxcli.cli import output
from voxcli.engine.base import Setup
from voxcli.errors import EXIT_MODEL, EXIT_OK, EXIT_OUTPUT, EXIT_USAGE
from voxcli.hub import encoder_checksum, resolve_model
from voxcli.voices import VoiceStore
from voxcli.voices.store import bundled_folder


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
            "a.pdf is not a text file; save its words as plain text",
        ),
        ("a.docx", b"PK\x03\x04\x14\0\x8c", "a.docx is not a text file; save its words"),
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
        ("speak Hello. -v emma", "-v takes no value, but 'emma' follows it; see 'voxcli speak"),
        ("speak --text Hello.", "no option '--text'; TEXT needs none: voxcli speak TEXT"),
        ("speak Hello. --lang en", "no option '--lang'; did you mean '--language'?"),
        ("clone Hello. --reference a.wav", "no option '--reference'; did you mean '--ref'?"),
        ("speak Hello. --gpu", "no option '--gpu'; see 'voxcli speak --help'"),
        ("list", "no command 'list'; it is a command of: voxcli voices, voxcli models; see"),
        ("speak Hello. --voice me.wav", "no voice 'me.wav'; for the voice of a recording, run: "),
        (
            "--voice emma speak Hello.",
            "no option '--voice'; put it behind the command: voxcli speak --voice",
        ),
    ],
)
def test_misspelt_words_and_values_are_told_what_was_meant(
    words: str, message: str, run: Any
) -> None:
    code, out, err = run(*words.split())
    assert (code, out) == (EXIT_USAGE, "")
    assert f"voxcli: error: {message}" in err


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
    assert run("speak", "Hello.", "--voice", "emma", "--dry-run")[0] == EXIT_OK
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
