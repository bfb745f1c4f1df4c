"""The page in a real browser: it speaks, plays again, keeps voices, fits a phone, complains of
nothing, and axe-core finds nothing serious in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
import soundfile
from browser import Browser
from running import Running, hold, run_server, until

from voxcli.audio.prebuffer import Prebuffer
from voxcli.server.app import PAGE

pytestmark = pytest.mark.usefixtures("chromium")

VOICES = Path(__file__).resolve().parents[2] / "samples" / "voices"
STATE = "document.body.dataset.state"
PLAYING = "document.body.dataset.playing"
AXE = files("axe_core_python").joinpath("axe.min.js")
SIZES = ((320, 640), (768, 1024), (1200, 900))
CLICK = "document.getElementById('{}').click()".format


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
    hold(running, 12)
    browser.run("document.getElementById('speak').click()")
    browser.until("document.body.dataset.samplesBeforeEnd > 0")
    assert not browser.run("'samples' in document.body.dataset")
    until(lambda: not running.model.gate.is_set())
    running.model.gate.set()
    browser.until("document.body.dataset.samples > 100000")
    assert re.fullmatch(r"\d+ ms", shown(browser, "ttfa"))
    assert re.fullmatch(r"\d+\.\d\d s", shown(browser, "made-in"))
    assert browser.run("document.getElementById('download').href").startswith("blob:")
    browser.run("document.getElementById('stop').click()")
    browser.until(f"{STATE} === 'done' && {PLAYING} === 'false'")
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
    """Other programs may take the processor for too long; hardly five times."""
    browser.run("document.getElementById('text').value = 'One two.'")
    gaps: list[str] = []
    while not gaps or (gaps[-1] != "0" and len(gaps) < 5):
        browser.run("document.getElementById('speak').click()")
        browser.until(f"{STATE} === 'done' && {PLAYING} === 'false'")
        gaps.append(shown(browser, "gaps"))
    assert gaps[-1] == "0"
    assert shown(browser, "used-seed").isdecimal()


def test_what_was_spoken_plays_again_from_any_place_without_a_request(browser: Browser) -> None:
    browser.run("document.getElementById('text').value = 'One two three. '.repeat(20)")
    browser.run(CLICK("speak"))
    browser.until(f"{STATE} === 'done'")
    spoken = [each for each in browser.loaded if each.endswith("/v1/audio/speech")]
    seed = shown(browser, "used-seed")
    position = "Number(document.getElementById('position').value)"
    length_s = browser.run("Number(document.getElementById('position').max)")
    browser.run(CLICK("stop"))
    browser.until(
        f"{PLAYING} === 'false' && document.getElementById('play').textContent === 'Play'"
    )
    browser.run(
        f"(() => {{ const at = document.getElementById('position'); at.value = {length_s - 1.5};"
        " at.dispatchEvent(new Event('input')); })()"
    )
    browser.until(f"Math.abs({position} - {length_s - 1.5}) < 0.1")
    browser.run(CLICK("play"))
    browser.until(f"{PLAYING} === 'false' && {position} === {length_s}")
    browser.run(CLICK("play"))  # once more, from the beginning
    browser.until(f"{PLAYING} === 'true' && 0 < {position} && {position} < {0.5 * length_s}")
    assert shown(browser, "play") == "Pause"
    browser.run(CLICK("play"))
    browser.until(f"{PLAYING} === 'false'")
    assert 0 < browser.run(position) < length_s
    assert shown(browser, "used-seed") == seed
    assert [each for each in browser.loaded if each.endswith("/v1/audio/speech")] == spoken
    browser.run(CLICK("keep-seed"))
    assert browser.run("document.getElementById('seed').value") == seed
    assert browser.complaints == []


# By `Run` alone: what has to wait, at a real-time factor, with so much made of so much.
@pytest.mark.parametrize(
    ("rtf", "made_s", "estimate_s", "needed_s"),
    [
        (0.1, 5.0, 5.0, 0.15),
        (0.8, 5.0, 10.0, 0.64),
        (1.6, 2.0, 10.0, 9.28),
        (1.6, 12.0, 10.0, 1.28),
    ],
)
def test_playing_begins_as_the_command_line_does(
    browser: Browser, rtf: float, made_s: float, estimate_s: float, needed_s: float
) -> None:
    """See `voxcli.audio.prebuffer`."""
    prebuffer = Prebuffer()
    prebuffer.pace.record(rtf, 1.0, is_first=False)
    assert prebuffer.needed_s(made_s, max(0, estimate_s - made_s)) == pytest.approx(
        needed_s, abs=0.08
    )
    found = browser.run(
        "import('/page/page.js').then(({ Run }) => { const run = new Run();"
        f" run.estimateS = {estimate_s};"
        f" Object.defineProperty(run, 'audioS', {{ value: {made_s} }});"
        f" return run.neededS({rtf}); }})"
    )
    assert found == pytest.approx(
        max(0.15, prebuffer.needed_s(made_s, max(0, estimate_s - made_s)))
    )


def test_a_refusal_is_shown_as_the_server_says_it(browser: Browser) -> None:
    browser.run("document.getElementById('text').value = '你好，今天天气很好。'")
    browser.run("document.getElementById('speak').click()")
    browser.until(f"{STATE} === 'error'")
    assert "speaks only English" in shown(browser, "status")


def test_on_a_phone_an_error_is_seen_beside_the_button(browser: Browser) -> None:
    browser.resize(360, 640, is_phone=True)
    browser.run("document.getElementById('text').value = '你好，今天天气很好。'")
    browser.run("document.getElementById('speak').scrollIntoView({ block: 'end' })")
    browser.run(CLICK("speak"))
    browser.until(f"{STATE} === 'error'")
    box = "document.getElementById('{}').getBoundingClientRect()".format
    gap = browser.run(f"{box('status')}.top - {box('speak')}.bottom")
    assert gap < 100


def test_a_voice_is_recorded_saved_and_speaks(running: Running, browser: Browser) -> None:
    click = CLICK
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
    length_s = browser.run(recorded_s)
    browser.run("document.getElementById('voice-name').value = 'mine'")
    browser.run("document.getElementById('consent').checked = true")
    browser.run("document.getElementById('voice-form').requestSubmit()")
    browser.until("document.getElementById('voice').value === 'mine'")
    assert shown(browser, "status") == "voice mine is saved"
    voice = running.service.store.find("mine")
    assert 3 < voice.duration_s < length_s + 1
    browser.run("document.getElementById('text').value = 'One two.'")
    browser.run(click("speak"))
    browser.until(f"{STATE} === 'done'")
    assert browser.run("document.getElementById('voice').value") == "mine"
    assert browser.complaints == []


def choose_file(browser: Browser, path: Path) -> None:
    found = browser.call("Runtime.evaluate", expression="document.getElementById('file')")
    node = {"objectId": found["result"]["objectId"]}
    browser.call("DOM.setFileInputFiles", files=[str(path)], **node)


def save(browser: Browser, name: str) -> None:
    browser.run(f"document.getElementById('voice-name').value = {json.dumps(name)}")
    browser.run("document.getElementById('consent').checked = true")
    browser.run("document.getElementById('voice-form').requestSubmit()")


def test_a_voice_is_replaced_renamed_and_deleted_once_its_owner_has_said_so(
    running: Running, browser: Browser
) -> None:
    is_open = "document.getElementById('{}').open".format
    chosen = "document.getElementById('voice').value"
    store = running.service.store
    assert browser.run("document.getElementById('delete-voice').hidden")  # of "default"
    browser.run(CLICK("new-voice"))
    choose_file(browser, VOICES / "clara.flac")
    save(browser, "first")
    browser.until(f"{chosen} === 'first' && !{is_open('voice-dialog')}")
    first = store.find("first").recording.key
    for answer in ("question-no", "question-yes"):
        browser.run(CLICK("new-voice"))
        choose_file(browser, VOICES / "emma.flac")
        save(browser, "first")
        browser.until(is_open("question-dialog"))
        assert "Replace it?" in shown(browser, "question")
        browser.run(CLICK(answer))
        browser.until(f"!{is_open('question-dialog')}")
        if answer == "question-no":
            assert store.find("first").recording.key == first
            browser.run(CLICK("voice-cancel"))
    browser.until(f"!{is_open('voice-dialog')}")
    assert store.find("first").recording.key != first
    browser.run(CLICK("rename-voice"))
    browser.run("document.getElementById('new-name').value = 'second'")
    browser.run("document.getElementById('rename-form').requestSubmit()")
    browser.until(f"{chosen} === 'second' && !{is_open('rename-dialog')}")
    assert "first" not in store.names()
    for answer in ("question-no", "question-yes"):
        assert "second" in store.names()
        browser.run(CLICK("delete-voice"))
        browser.until(is_open("question-dialog"))
        browser.run(CLICK(answer))
        browser.until(f"!{is_open('question-dialog')}")
    browser.until(f"{chosen} === 'default'")
    assert "second" not in store.names()
    assert [each for each in browser.complaints if "409" not in each] == []


def test_what_came_last_is_what_is_sent_as_a_voice(browser: Browser) -> None:
    browser.run(CLICK("new-voice"))
    choose_file(browser, VOICES / "clara.flac")
    browser.until("!document.getElementById('preview').hidden")
    browser.run(CLICK("record"))
    browser.until("parseFloat(document.getElementById('voice-status').textContent) > 0")
    browser.run(CLICK("record"))
    browser.until("document.getElementById('file').files.length === 0")
    browser.run(CLICK("voice-cancel"))
    browser.run(CLICK("new-voice"))  # nothing is left of a dialog that was cancelled
    assert browser.run("document.getElementById('preview').hidden")


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, is_dark: bool) -> None:
    browser.dark(is_dark)
    browser.run(AXE.read_text("utf-8") + ";0")
    states = {
        "idle": "0",
        "spoken": CLICK("speak"),
        "new voice": CLICK("new-voice"),
        "question": CLICK("voice-cancel")
        + ";document.getElementById('question-dialog').showModal()",
        "rename": CLICK("question-no") + ";document.getElementById('rename-dialog').showModal()",
    }
    for state, script in states.items():
        browser.run(f"{{{script}}};0")
        if state == "spoken":
            browser.until(f"{STATE} === 'done' && {PLAYING} === 'false'")
        for width, height in SIZES:
            browser.resize(width, height, is_phone=width < 500)
            found = browser.run("axe.run().then((found) => found.violations)")
            bad = [f"{each['id']}: {each['nodes'][0]['html']}" for each in found
                   if each["impact"] in ("serious", "critical")]  # fmt: skip
            assert bad == [], (state, width)
    browser.dark(False)


def test_tab_reaches_every_control_in_the_order_of_the_page(browser: Browser) -> None:
    browser.run("document.getElementById('text').value = 'One two.'")
    browser.run(CLICK("speak"))
    browser.until(f"{STATE} === 'done' && {PLAYING} === 'false'")
    wanted = browser.run(
        "[...document.querySelectorAll('a, input, textarea, select, button')].filter(e =>"
        " e.checkVisibility() && !e.disabled).map(e => e.id).join()"
    ).split(",")
    browser.run("document.activeElement.blur()")
    found = []
    for _ in wanted:
        browser.press("Tab", 9)
        found.append(browser.run("document.activeElement.id"))
    assert found == wanted


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
