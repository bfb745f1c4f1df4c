"""How many rows an hour a batch over N servers makes, what is busy first, and what faults cost.

    python tools/simulate_fleet.py [replicas|policies|faults] [--service NAME] [--rows 200]

Simulated time, real decisions: rows go through the dispatcher of `voxcli batch --engine URL,URL` to
servers with measured step times (`fleet/servers.py`). What one client can take is a table too:

    replicas  rows an hour for 1 to 64 servers, alone, where one in eight dies and comes back, and
              with one client's CPU, network and disk
    policies  the dispatcher beside round robin and random; longest rows first, and in table order
    faults    servers that die and come back, hang, refuse, or are slow

Rows are random, 5 s of audio in the mean, log-normal; the dispatcher's estimates of them are off by
15 %. `--rows` is for each server. Expected: the tables of docs/scaling.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fleet.servers import SERVICES, Service
from fleet.world import Client, Fault, Outcome, World, longest_first, table

from voxcli.engine.fleet.dispatcher import Dispatcher, Row, Server, ServerState

# tools/client_cost.py, bundled voice at 24 kHz, two servers on the same two busy cores; at 48 kHz
# a second of audio has twice the samples, and is taken to cost twice as much
CPU_ROW_S, CPU_SAMPLE_S = 4.7e-3, 2.95e-3 / 24_000
PLAN_S = 1e-3  # a row's question to a server in the same network
CARRIER_BYTES = 1.25e9 * 0.9  # 10 Gbit/s with its headers
DISK_BYTES = 500e6
REPLICAS = (1, 2, 4, 8, 16, 32, 64)


def client_of(service: Service) -> Client:
    """One process on a machine with 10 Gbit/s and a disk of 500 MB/s."""
    return Client(
        cpu_row_s=CPU_ROW_S,
        cpu_audio_s=CPU_SAMPLE_S * service.sample_rate,
        plan_s=PLAN_S,
        network_bytes=CARRIER_BYTES,
        disk_bytes=DISK_BYTES,
        file_bytes=2.0 * service.sample_rate,
    )


class Blind(Dispatcher):
    """A load balancer: so many rows in flight in all, each to some server that is up."""

    def next(self, now_s: float) -> list[tuple[Row, Server]]:
        up = [each for each in self.servers if each.state is ServerState.UP]
        num_in_flight = sum(len(each.rows) for each in self.servers)
        room = sum(each.cap.now for each in self.servers) - num_in_flight if up else 0
        due = [row for row in self._waiting if row.not_before_s <= now_s]
        begun = [(row, self._pick(up)) for row in due[:room]]
        for row, server in begun:
            self._waiting.discard(row)
            self._send(row, server, now_s)
        return begun

    def _pick(self, up: Sequence[Server]) -> Server:
        raise NotImplementedError

    def moves(self, now_s: float) -> list[tuple[Row, Server]]:
        return []


class RoundRobin(Blind):
    _turn = 0

    def _pick(self, up: Sequence[Server]) -> Server:
        self._turn += 1
        return up[self._turn % len(up)]


class Random(Blind):
    def _pick(self, up: Sequence[Server]) -> Server:
        return self._jitter.choice(up)


# ------------------------------------------------------------ what is shown


def show(head: str, rows: Sequence[Sequence[str]]) -> None:
    """A table in Markdown."""
    print(f"| {head} |\n|{'---|' * (head.count('|') + 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def rows_an_hour(outcome: Outcome) -> str:
    return f"{round(outcome.rows_an_hour, -2):,.0f}"


def replicas(services: Sequence[Service], rows_each: int, most: int) -> None:
    for service in services:
        print(f"{service.name}: {service.source}\n")
        found = []
        for num in (num for num in REPLICAS if num <= most):
            lines = longest_first(table(rows_each * num))
            alone = World(service, [1.0] * num, lines).run()
            dying = World(service, [1.0] * num, lines, faults=deaths(service, num, alone)).run()
            real = World(service, [1.0] * num, lines, client=client_of(service)).run()
            shares = (f"{name} {share:.0%}" for name, share in real.shares.items())
            found.append((
                str(num), rows_an_hour(alone), f"{alone.audio_s / alone.wall_s:,.0f}",
                f"{dying.wall_s - alone.wall_s:.0f} s, {dying.num_failed}",
                rows_an_hour(real), f"{real.audio_s / real.wall_s:,.0f}", ", ".join(shares),
            ))  # fmt: skip
        show(
            "servers | rows an hour | audio-s/s | deaths cost, rows failed | with one client "
            "| audio-s/s | how busy",
            found,
        )


def deaths(service: Service, num_servers: int, usual: Outcome) -> tuple[Fault, ...]:
    """One server in eight, or the only one, dies in the second third of the run and comes back."""
    found = []
    for index in range(0, num_servers, 8):
        at_s = usual.wall_s / 3 * (1 + index / num_servers)
        found.append(Fault("dies", index, at_s, at_s + service.ready_s))
    return tuple(found)


def policies(services: Sequence[Service], rows_each: int) -> None:
    speeds = {"4 equal": [1.0] * 4, "one of 4 at a third": [1.0, 1.0, 1.0, 1 / 3]}
    for service in services:
        found = []
        cap = (service.most, service.most)
        for name, each in speeds.items():
            lines = table(rows_each * 4)
            for order, ordered in (("table", lines), ("longest first", longest_first(lines))):
                walls = [
                    f"{World(service, each, ordered, kind=kind, cap=cap).run().wall_s:.1f}"
                    for kind in (Dispatcher, RoundRobin, Random)
                ]
                found.append((name, order, *walls))
        print(f"{service.name}, {rows_each * 4} rows, seconds\n")
        show("servers | order | dispatcher | round robin | random", found)


def faults(services: Sequence[Service], rows_each: int) -> None:
    """What happens at a third of an undisturbed run, or at its end, to one of four servers."""
    for service in services:
        lines = longest_first(table(rows_each * 4))
        speeds = [1.0] * 4
        usual = World(service, speeds, lines).run()
        third_s, end_s = usual.wall_s / 3, 0.95 * usual.wall_s
        back_s = third_s + service.ready_s
        cases = {
            "nothing": (),
            "one dies and comes back": (Fault("dies", 0, third_s, back_s),),
            "one dies for good": (Fault("dies", 0, third_s, 1e5),),
            "all die one after the other": tuple(
                Fault("dies", index, third_s + index, back_s + index) for index in range(4)
            ),
            "one hangs in the middle": (Fault("hangs", 0, third_s, 1e5),),
            "one hangs among the last rows": (Fault("hangs", 0, end_s, 1e5),),
            "one refuses for 10 s": (Fault("refuses", 0, third_s, third_s + 10.0),),
        }
        found = []
        for name, happening in cases.items():
            outcome = World(service, speeds, lines, faults=happening).run()
            again = outcome.num_tries - len(lines)
            found.append((name, f"{outcome.wall_s:.1f}", str(again), str(outcome.num_failed)))
        slow = World(service, [1.0, 1.0, 1.0, 0.1], lines).run()
        again = slow.num_tries - len(lines)
        found.append(("one is ten times slower", f"{slow.wall_s:.1f}", str(again), "0"))
        print(f"{service.name}, 4 servers, {len(lines)} rows\n")
        show("what happens | seconds | further tries | rows failed", found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("replicas", "policies", "faults"))
    parser.add_argument("--service", default="", help="only those with this in their name")
    parser.add_argument("--rows", type=int, default=200, help="of each server")
    parser.add_argument("--most", type=int, default=64, help="servers")
    options = parser.parse_args()
    services = [each for each in SERVICES if options.service in each.name]
    if options.what in (None, "replicas"):
        replicas(services, options.rows, options.most)
    if options.what in (None, "policies"):
        policies(services, options.rows)
    if options.what in (None, "faults"):
        faults(services, options.rows)


if __name__ == "__main__":
    main()
