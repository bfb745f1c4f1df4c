"""The simulation of a fleet agrees with what can be computed, and nothing gets lost in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from fleet.servers import SERVICES, Service, SimulatedServer  # noqa: E402
from fleet.world import Client, Fault, World, longest_first, table  # noqa: E402

STEADY = [each for each in SERVICES if not each.takes_waves]
WAVES = [each for each in SERVICES if each.takes_waves]


def spoken(server: SimulatedServer) -> list[tuple[float, object]]:
    """Every row and when it ends, with nobody coming any more."""
    found: list[tuple[float, object]] = []
    while (at_s := server.next_end_s()) is not None:
        found += [(at_s, job) for job in server.take_ended(at_s)]
    return found


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_server_makes_what_was_measured(service: Service) -> None:
    for num_rows, step_ms in service.step_ms.items():
        if num_rows > service.most:
            continue
        server = SimulatedServer(service)
        for index in range(num_rows):
            server.waiting.append((index, 20.0))
        server._admit(0.0)
        ends = spoken(server)
        assert len(ends) == num_rows
        wall_s = 20.0 / service.frame_s * step_ms / 1e3 + num_rows * service.prompt_ms / 1e3
        assert ends[-1][0] == pytest.approx(wall_s)
        assert service.throughput(num_rows) == pytest.approx(
            num_rows * service.frame_s / (step_ms / 1e3)
        )


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_newcomers_wait_for_the_whole_wave_where_there_are_waves(service: Service) -> None:
    server = SimulatedServer(service)
    for index, audio_s in enumerate((10.0, 1.0)):
        server.waiting.append((index, audio_s))
    server._admit(0.0)
    server.add("new", 1.0, 0.0)
    order = [job for _, job in spoken(server)]
    assert order == ([1, 0, "new"] if service.takes_waves else [1, "new", 0])


def test_a_batch_is_no_faster_than_its_servers_and_hardly_slower() -> None:
    for service in STEADY:
        outcome = World(service, [1.0, 1.0], longest_first(table(1500))).run()
        best = 2 * service.throughput(service.most)
        assert 0.75 * best < outcome.audio_s / outcome.wall_s <= best
        assert outcome.num_tries == outcome.num_ok == 1500


@pytest.mark.parametrize("service", WAVES, ids=lambda service: service.name)
def test_a_slow_server_is_not_flooded_while_prompt_ones_get_many(service: Service) -> None:
    """What they take is not stated, so it is learnt."""
    speeds = [1.0, 1.0, 1.0 / service.throughput(8)]  # the last makes a second of audio a second
    world = World(service, speeds, longest_first(table(300)))
    world.run()
    assert world.most_at_once[2] <= 16 <= max(world.most_at_once[:2])


@pytest.mark.parametrize("speed", [0.02, 0.1])
def test_a_slow_server_alone_is_given_no_more_than_twice_what_it_begins_with(speed: float) -> None:
    world = World(WAVES[0], [speed], table(120))
    world.run()
    assert world.most_at_once[0] <= 16


@pytest.mark.parametrize(
    ("client", "first", "audio_s"),
    [
        (Client(cpu_audio_s=0.01), "client", 100.0),
        (Client(network_bytes=192e3 * 50), "network", 50.0),
    ],
)
def test_what_is_busy_first_bounds_the_batch(client: Client, first: str, audio_s: float) -> None:
    outcome = World(SERVICES[0], [1.0, 1.0], table(300), client=client).run()
    assert outcome.first == first
    assert outcome.audio_s / outcome.wall_s == pytest.approx(audio_s, rel=0.05)


fault = st.builds(
    lambda what, server, at_s, for_s: Fault(what, server, at_s, at_s + for_s),
    st.sampled_from(["dies", "hangs", "refuses"]),
    st.integers(0, 1),
    st.floats(0.1, 5.0),
    st.floats(0.5, 40.0),
)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(SERVICES), st.lists(fault, max_size=3), st.integers(0, 99))
def test_every_row_ends_whatever_happens(service: Service, faults: list[Fault], seed: int) -> None:
    rows = longest_first(table(60, seed=seed))
    outcome = World(service, [1.0, 0.7, 1.0], rows, faults=faults, seed=seed).run(3600.0)
    assert outcome.num_ok + outcome.num_failed == len(rows)
    assert outcome.num_failed == 0 or sum(each.what != "refuses" for each in faults) > 1


def test_the_tool_shows_its_tables() -> None:
    command = [sys.executable, str(TOOLS / "simulate_fleet.py")]
    words = ["replicas", "--service", "0.6B", "--rows", "30", "--most", "2"]
    text = subprocess.run([*command, *words], check=True, capture_output=True, text=True).stdout
    rows = [line for line in text.splitlines() if line.startswith(("| 1 ", "| 2 "))]
    assert len(rows) == 2
