"""Servers at URLs as a fleet: all are asked at once who they are; none waits for a silent one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from voxcli.engine.fleet.cap import MAX, START, Cap
from voxcli.engine.fleet.dispatcher import Server, ServerState
from voxcli.engine.fleet.engine import FleetEngine
from voxcli.engine.fleet.member import Member, why_other
from voxcli.engine.news import NewsEngine
from voxcli.errors import EngineError, UsageError

OTHERS_S = 2.0  # that servers have to say who they are, once one of them has


def open_fleet(
    openers: Mapping[str, Callable[[], NewsEngine]],
    *,
    rows_a_server: int | None = None,
    on_note: Callable[[str], None] = lambda note: None,
    is_endless: bool = False,
) -> FleetEngine:
    """The servers that answer, and those that may come back or answer later.

    Args:
        openers: for each server's name, what finds out who is there: see `Member`.
        rows_a_server: given to each at once, at most; None means as many as it says that it has
            streams, or where it does not say so 8 at first, then as many as make it faster.
        on_note: told of servers that do not answer, or not yet.
        is_endless: see `Dispatcher`.

    Raises:
        EngineError: nobody answers.
        UsageError: somebody does who is no help, or speaks something else than the others.
    """
    members = [
        Member(Server(index, name, _cap(rows_a_server, len(openers))), opener)
        for index, (name, opener) in enumerate(openers.items())
    ]
    try:
        openings = [member.opening() for member in members]
        _wait_for_one(openings)
        missing: list[EngineError] = []
        for member, opening in zip(members, openings, strict=True):
            if not opening.done():
                on_note(f"{member.server.name} has not answered yet; it joins when it answers")
            elif (error := opening.exception()) is not None:
                if not isinstance(error, EngineError):
                    raise error
                missing.append(error)
            else:
                continue
            member.server.state = ServerState.DOWN
        if len(missing) == len(members):
            raise missing[0]
        for error in missing:
            on_note(error.message)
        _check_same([each for each in members if each.server.state is ServerState.UP])
    except BaseException:
        for member in members:
            member.close()
        raise
    return FleetEngine(members, is_endless=is_endless)


def _cap(rows: int | None, num_servers: int) -> Cap:
    return Cap(START, MAX, may_leap=num_servers == 1) if rows is None else Cap(rows, rows)


def _wait_for_one(openings: Sequence[Future[None]]) -> None:
    """Wait until one answers, or none will; then a moment for the others."""
    pending, answered = set(openings), False
    while pending and not answered:
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        answered = any(not isinstance(each.exception(), EngineError) for each in done)
    wait(pending, OTHERS_S)


def _check_same(members: Sequence[Member]) -> None:
    first = members[0]
    for member in members[1:]:
        facts = first.connect().facts
        why = why_other(member.connect().facts, member.checksum, facts, first.checksum)
        if why is not None:
            raise UsageError(
                f"{member.server.name} does not match {first.server.name}: {why}",
                hint="give servers of one model and version",
            )
