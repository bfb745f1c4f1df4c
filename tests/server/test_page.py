"""The page in a real browser: it speaks, shows, stops, fits a phone, complains of nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile
from browser import Browser
from running import Running, run_server, until

from voxcli.server.app import PAGE

pytestmark = pytest.mark.usefixtures("chromium")

VOICES = Path(__file__).resolve().parents[2] / "samples" / "voices"
STATE = "document.body.dataset.state"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder))
        with run_server() as running:
            yield running


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[Browser]:
    """One browser for all tests: starting it takes longer than they do."""
    samples, rate = soundfile.read(VOICES / "clara.flac")
    soundfile.write(folder / "microphone.wav", samples, rate)
    with Browser(folder, microphone=folder / "microphone.wav") as browser:
        yield browser


@pytest.fixture
def browser(opened: Browser, running: Running) -> Browser:
    """A fresh load of the page."""
    opened.call("Page.navigate", url="about:blank")
    opened.complaints.clear()
    opened.resize(1200, 1000)
    opened.open(running.url)
    opened.until(f"{STATE} === 'idle'")
    return opened


def shown(browser: Browser, name: str) -> str:
    return str(browser.run(f"document.getElementById('{name}').textContent"))


def test_samples_arrive_before_the_request_has_ended(running: Running, browser: Browser) -> None:
    browser.run("document.getElementById('text').value = 'One two three. '.repeat(40)")
    running.model.steps_left = 12
    browser.run("document.getElementById('speak').click()")
    browser.until("document.body.dataset.samplesBeforeEnd > 0")
    assert not browser.run("'samples' in document.body.dataset")
    until(lambda: not running.model.gate.is_set())
    running.model.gate.set()
    browser.until("document.body.dataset.samples > 100000")
    assert re.fullmatch(r"\d+ ms", shown(browser, "ttfa"))
    assert re.fullmatch(r"\d+\.\d\d", shown(browser, "rtf"))
    assert browser.run("document.getElementById('download').href").startswith("blob:")
    browser.run("document.getElementById('stop').click()")
    browser.until(f"{STATE} === 'done'")
    assert browser.complaints == []


def test_keys_speak_and_stop_and_a_stop_frees_the_slot(running: Running, browser: Browser) -> None:
    browser.run("document.getElementById('text').value = 'One two three. '.repeat(200)")
    browser.press("Enter", 13, modifiers=2)
    browser.until(f"{STATE} === 'speaking'")
    browser.until("document.body.dataset.samplesBeforeEnd > 0")
    browser.press("Escape", 27)
    browser.until(f"{STATE} === 'done'")
    until(lambda: running.worker.num_running == 0)
    assert browser.complaints == []


def test_it_plays_to_the_end_without_a_gap(browser: Browser) -> None:
    browser.run("document.getElementById('text').value = 'One two.'")
    browser.run("document.getElementById('speak').click()")
    browser.until(f"{STATE} === 'done'")
    assert shown(browser, "gaps") == "0"
    assert "seed" in shown(browser, "status")


def test_a_refusal_is_shown_as_the_server_says_it(browser: Browser) -> None:
    browser.run("document.getElementById('text').value = '你好，今天天气很好。'")
    browser.run("document.getElementById('speak').click()")
    browser.until(f"{STATE} === 'error'")
    assert "speaks only English" in shown(browser, "status")


def test_a_voice_is_recorded_saved_and_speaks(running: Running, browser: Browser) -> None:
    click = "document.getElementById('{}').click()".format
    browser.run(click("new-voice"))
    browser.run(click("record"))
    recorded_s = "parseFloat(document.getElementById('voice-status').textContent)"
    is_recording = "document.getElementById('record').ariaPressed === 'true'"
    browser.until(f"{recorded_s} > 0")
    browser.run(click("voice-cancel"))  # lets go of the microphone
    browser.until(f"!({is_recording})")
    browser.run(click("new-voice"))
    browser.run(click("record"))
    browser.until(f"{recorded_s} > 4 && {is_recording}")
    browser.run(click("record"))
    browser.until("!document.getElementById('preview').hidden")
    browser.run("document.getElementById('voice-name').value = 'mine'")
    browser.run("document.getElementById('consent').checked = true")
    browser.run("document.getElementById('voice-form').requestSubmit()")
    browser.until("document.getElementById('voice').value === 'mine'")
    assert shown(browser, "status") == "voice mine is saved"
    voice = running.service.store.find("mine")
    assert 3 < voice.duration_s < 6
    browser.run("document.getElementById('text').value = 'One two.'")
    browser.run(click("speak"))
    browser.until(f"{STATE} === 'done'")
    assert browser.run("document.getElementById('voice').value") == "mine"
    assert browser.complaints == []


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_it_fits_and_every_control_has_a_name(browser: Browser, width: int) -> None:
    browser.resize(width, 800, is_phone=width < 500)
    assert browser.run("document.documentElement.scrollWidth") <= width
    nameless = browser.run(
        "[...document.querySelectorAll('input, textarea, select, button')].filter(e => "
        "!(e.labels?.length || e.ariaLabel || e.textContent.trim())).map(e => e.id).join()"
    )
    assert nameless == ""


def test_nothing_is_asked_of_another_host() -> None:
    for path in PAGE.iterdir():
        addresses = re.findall(r"https?://[^\s\"']+", path.read_text("utf-8"))
        assert [a for a in addresses if "www.w3.org/2000/svg" not in a] == [], path.name
