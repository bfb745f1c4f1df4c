"""A list of servers: who is asked and when, what is said of them, and who waits for whom."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked import QUICK, served
from commands import Run, runner
from replayed import SPEECH, Answer, Replay, as_json

from voxcli.audio import wav
from voxcli.config import EngineConfig
from voxcli.engine import addresses
from voxcli.engine.calls import LoopThread
from voxcli.engine.choose import open_engine
from voxcli.engine.fleet import engine as fleet_engine
from voxcli.engine.fleet import member, open
from voxcli.engine.fleet.dispatcher import ServerState
from voxcli.engine.fleet.engine import FleetEngine
from voxcli.engine.fleet.open import open_fleet
from voxcli.engine.openai import probe
from voxcli.engine.openai.engine import OpenAIEngine, open_server
from voxcli.engine.openai.probe import WORD
from voxcli.errors import BusyError, EngineError, UsageError, VoxError
from voxcli.utterance import Utterance

RATE = 24_000
PEM = Path(__file__).resolve().parents[1] / "inputs" / "tls" / "server.pem"
CONFIG = EngineConfig("mini", device="cpu")


def spoken(seconds: float = 2.0) -> Answer:
    """Noise that comes and goes as syllables do, as a whole WAV file."""
    at_s = np.arange(round(seconds * RATE)) / RATE
    noise = np.random.default_rng(1).normal(0.0, 3000.0, len(at_s))
    samples = (noise * np.sin(2.5 * np.pi * at_s) ** 2).astype("<i2")
    data = wav.wav_header(RATE, "16", len(samples)) + samples.tobytes()
    return Answer(200, {"content-type": "audio/wav"}, (data,))


def unknown(*speech: Answer) -> dict[tuple[str, str], Any]:
    """A server whose model nobody knows, so that it is asked for a word."""
    return {**served("tts", owner="x"), SPEECH: speech or spoken()}


@pytest.fixture
def pair() -> Iterator[tuple[Replay, Replay]]:
    with Replay(unknown()) as first, Replay(unknown()) as second:
        yield first, second


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(tmp_path, monkeypatch, capfd)


def spec_of(*replays: Replay) -> str:
    return ",".join(replay.url for replay in replays)


def num_words(replay: Replay) -> int:
    return sum(body["input"] == WORD for body in replay.spoken)


# ---------------------------------------------------------------- who waits for whom


@contextmanager
def fleet_of(*openers: Callable[[], OpenAIEngine]) -> Iterator[FleetEngine]:
    with open_fleet({f"s{n}": opener for n, opener in enumerate(openers)}) as engine:
        yield engine


def test_a_server_that_is_silent_when_asked_holds_up_no_other_and_joins_when_it_answers(
    pair: tuple[Replay, Replay], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open, "OTHERS_S", 0.05)
    may_answer, notes = threading.Event(), []
    with ExitStack() as stack:
        loop = stack.enter_context(LoopThread("client"))

        def find(replay: Replay) -> OpenAIEngine:
            engine = open_server(replay.url, None, None, loop, max_streams=1, limits=QUICK)
            assert engine is not None
            return engine

        def late() -> OpenAIEngine:
            may_answer.wait()
            return find(pair[1])

        openers = {"early": lambda: find(pair[0]), "late": late}
        engine = stack.enter_context(open_fleet(openers, on_note=notes.append))
        assert "late has not answered yet" in notes[0]
        assert engine.facts.name == "1 of 2 servers"
        plan = engine.plan(Utterance("The ferry leaves at noon."))
        engine.synthesize([plan])
        with engine.session() as session:
            may_answer.set()
            counts = engine.server_counts()
            while not counts["late"]["rows"]:
                if session.is_idle:
                    for _ in range(4):
                        session.add(plan, is_live=False)
                assert not any(isinstance(event, VoxError) for _, event in session.step())
                counts = engine.server_counts()
        assert counts["early"]["rows"]
        assert engine.facts.name == "2 servers"


def test_one_that_is_silent_when_asked_to_plan_is_doubted_and_another_plans(
    pair: tuple[Replay, Replay], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_engine, "ANSWER_S", 0.05)
    with open_engine(spec_of(*pair), CONFIG) as engine:
        assert isinstance(engine, FleetEngine)
        silent, other = (member.connect() for member in engine._members)
        may_answer, asked, plan = threading.Event(), [], other.plan

        def planned(utterance: Utterance) -> Any:
            asked.append(utterance)
            return plan(utterance)

        monkeypatch.setattr(silent, "plan", lambda utterance: may_answer.wait())
        monkeypatch.setattr(other, "plan", planned)
        assert engine.plan(Utterance("Hello there.")).text.text == "Hello there."
        assert engine._members[0].server.state is ServerState.DOUBTED
        assert len(asked) == 1
        may_answer.set()


def test_a_slow_plan_counts_where_no_other_server_has_a_faster_one(
    pair: tuple[Replay, Replay], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_engine, "ANSWER_S", 0.02)
    with open_engine(spec_of(*pair), CONFIG) as engine:
        assert isinstance(engine, FleetEngine)
        asked, may_answer = [], threading.Event()
        for each in engine._members:
            plan = each.connect().plan

            def slow(utterance: Utterance, plan: Any = plan) -> Any:
                asked.append(utterance)
                if len(asked) == 2:
                    may_answer.set()
                may_answer.wait()
                return plan(utterance)

            monkeypatch.setattr(each.engine, "plan", slow)
        assert engine.plan(Utterance("Hello there.")).text.text == "Hello there."
        assert len(asked) == 2


def test_a_bug_while_a_server_is_asked_leaves_it_to_be_asked_again(
    pair: tuple[Replay, Replay], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    look = member.Member.look

    def broken(self: member.Member, *given: Any) -> str | None:
        asked.append(self.server.name)
        if len(asked) == 1:
            raise RuntimeError("a bug")
        return look(self, *given)

    monkeypatch.setattr(member.Member, "look", broken)
    with open_engine(spec_of(*pair), CONFIG) as engine:
        assert isinstance(engine, FleetEngine)
        for each in engine._members:
            each.server.state = ServerState.DOUBTED
        engine.synthesize([engine.plan(Utterance("Hello there."))])
        states = {each.server.state for each in engine._members}
    assert ServerState.UP in states


def test_a_server_that_is_done_with_nothing_is_not_flooded(pair: tuple[Replay, Replay]) -> None:
    silent, prompt = pair
    with open_engine(spec_of(*pair), CONFIG) as engine:
        silent.hang_before_headers = True
        before = silent.num_spoken
        plan = engine.plan(Utterance("The ferry leaves at noon."))
        engine.synthesize([plan] * 60)
        counts = engine.server_counts()
    assert silent.num_spoken - before <= 8
    assert counts[prompt.url]["rows"] == 60


# ---------------------------------------------------------------- how a list is opened


@pytest.mark.parametrize("status", [429, 503, 500])
@pytest.mark.parametrize("num_servers", [1, 2])
def test_a_server_that_has_no_room_for_its_word_is_asked_again(
    pair: tuple[Replay, Replay], status: int, num_servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "PAUSE_S", 0.0)
    monkeypatch.setattr(member, "BACKOFF_S", 0.0)
    for replay in pair:
        replay.set(SPEECH, Answer(status, {}), Answer(status, {"retry-after": "0"}), spoken())
    with open_engine(spec_of(*pair[:num_servers]), CONFIG) as engine:
        assert engine.facts.sample_rate == RATE
        assert all(each["rows_at_once"] for each in engine.server_counts().values())


def test_a_server_that_has_no_room_to_say_who_it_is_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(member, "BACKOFF_S", 0.0)
    found = unknown()
    found["GET", "/v1/models"] = [Answer(429, {}), found["GET", "/v1/models"]]
    with Replay(found) as replay, open_engine(replay.url, CONFIG) as engine:
        assert engine.facts.model == "tts"


def test_one_that_never_has_room_is_said_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "ROOM_S", 0.0)
    monkeypatch.setattr(member, "BACKOFF_S", 0.0)
    with Replay(unknown(Answer(429, {}))) as replay, pytest.raises(BusyError, match=replay.url):
        open_engine(replay.url, CONFIG)


def test_a_batch_asks_each_server_for_its_word_once(run: Run, pair: tuple[Replay, Replay]) -> None:
    Path("rows.csv").write_text("text\nThe ferry leaves at noon.\nBring a jacket.\n", "utf-8")
    code, _, err = run("batch", "rows.csv", "-o", "out", "--engine", spec_of(*pair))
    assert code == 0, err
    assert [num_words(replay) for replay in pair] == [1, 1]
    assert "asking 2 servers to speak" in err


def test_what_is_said_of_servers_counts_those_that_speak(
    run: Run, pair: tuple[Replay, Replay]
) -> None:
    pair[1].close()
    code, _, err = run("speak", "Hello there.", "-o", "a.wav", "--engine", spec_of(*pair))
    assert code == 0, err
    assert "asking 1 of 2 servers to speak" in err


def test_a_model_that_was_typed_is_sent_as_typed_even_if_it_is_the_default(
    run: Run, pair: tuple[Replay, Replay]
) -> None:
    words = ("speak", "Hello there.", "-o", "a.wav", "--engine", pair[0].url)
    code, _, err = run(*words, "--model", "mini")
    assert code == 2
    assert "does not serve 'mini'" in err
    code, _, err = run(*words)
    assert code == 0, err
    pair[0].set(("GET", "/v1/models"), as_json({"data": []}))
    code, _, err = run(*words, "--model", "mini", "--overwrite")
    assert code == 0, err
    assert pair[0].spoken[-1]["model"] == "mini"


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "names",
    [
        ("http://localhost:8091", "http://127.0.0.1:8091"),
        ("http://localhost:8091", "http://[::1]:8091"),
        ("http://127.0.0.1:8091", "http://[::ffff:127.0.0.1]:8091/v1"),
        ("http://0.0.0.0:8091", "http://LOCALHOST:8091/"),
        ("http://gpu1:8091", "http://GPU1:8091"),
        ("http://gpu1.lan:8091", "http://gpu1.lan.:8091"),
        ("http://gpu1", "http://gpu1:80"),
        ("https://gpu1:443/v1", "HTTPS://gpu1"),
        ("http://[2001:db8::1]:8091", "http://[2001:DB8:0::1]:8091"),
    ],
)
def test_two_names_of_one_server_are_refused(names: tuple[str, str]) -> None:
    for first, second in (names, names[::-1]):
        with pytest.raises(UsageError, match="names a server twice"):
            open_engine(f"{first},{second}", CONFIG)


@pytest.mark.parametrize(
    "names",
    [
        ("http://gpu1:8091", "http://gpu1:8092"),
        ("http://gpu1:8091/a", "http://gpu1:8091/b"),
        ("http://127.0.0.1:8091", "http://127.0.0.2:8091"),
        ("http://gpu1:8091", "https://gpu1:8091"),
    ],
)
def test_servers_that_differ_are_not_taken_for_one(names: tuple[str, str]) -> None:
    from voxcli.engine.choose import check_spec

    assert check_spec(",".join(names)) == ",".join(names)


def test_an_address_with_the_wrong_scheme_is_told_the_right_one() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    with Replay(unknown()) as plain, Replay(unknown(), context) as secure:
        for right in (plain.url, secure.url):
            scheme, rest = right.split("://")
            wrong = f"{'http' if scheme == 'https' else 'https'}://{rest}"
            with pytest.raises(VoxError) as caught:
                open_engine(wrong, CONFIG)
            assert f"give {right}" in str(caught.value)


def test_an_address_with_the_right_scheme_is_told_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "LOOK_S", 0.1)
    with Replay({}) as replay, pytest.raises(VoxError) as caught:
        open_engine(replay.url, CONFIG)
    assert "https" not in str(caught.value)
    replay.close()
    with pytest.raises(EngineError) as gone:
        open_engine(replay.url, CONFIG)
    assert "https" not in str(gone.value)
