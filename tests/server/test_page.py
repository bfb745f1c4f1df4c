"""The page in a real browser: it speaks, shows, stops, fits a phone, complains of nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from running import Running, run_server, until

from voxcli.server.app import PAGE

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

STATE = "document.body.dataset.state"


@pytest.fixture
def running() -> Iterator[Running]:
    with run_server() as running:
        yield running


@pytest.fixture
def browser(tmp_path: Path, running: Running) -> Iterator[Browser]:
    with Browser(tmp_path) as browser:
        browser.open(running.url)
        browser.until(f"{STATE} === 'idle'")
        yield browser


def shown(browser: Browser, name: str) -> str:
    return str(browser.run(f"document.getElementById('{name}').textContent"))


def test_samples_arrive_before_the_request_has_ended(running: Running, browser: Browser) -> None:
    browser.run("document.getElementById('text').value = 'One two three. '.repeat(40)")
    browser.run("document.getElementById('speak').click()")
    browser.until("document.body.dataset.samplesBeforeEnd > 0")
    running.model.gate.clear()
    is_made = browser.run("'samples' in document.body.dataset")
    running.model.gate.set()
    assert not is_made, "the whole text was spoken before the page could look"
    browser.until("document.body.dataset.samples > 100000")
    assert re.fullmatch(r"\d+ ms", shown(browser, "ttfa"))
    assert float(shown(browser, "rtf")) < 5
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
