"""Servers at URLs as a fleet: all are asked at once who they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from voxcli.engine.fleet.cap import MAX, START, Cap
from voxcli.engine.fleet.dispatcher import Server, ServerState
from voxcli.engine.fleet.engine import FleetEngine
from voxcli.engine.fleet.member import Member, why_other
from voxcli.engine.news import NewsEngine
from voxcli.errors import EngineError, UsageError


def open_fleet(
    openers: Mapping[str, Callable[[], NewsEngine]],
    *,
    rows_a_server: int | None = None,
    on_note: Callable[[str], None] = lambda note: None,
    is_endless: bool = False,
) -> FleetEngine:
    """The servers that answer, and those that may come back.

    Args:
        openers: for each server's name, what finds out who is there: see `Member`.
        rows_a_server: given to each at once, at most; None means as many as it says that it has
            streams, or where it does not say so 8 at first, then as many as make it faster.
        on_note: told of servers that do not answer.
        is_endless: see `Dispatcher`.

    Raises:
        EngineError: nobody answers.
        UsageError: somebody does who is no help, or speaks something else than the others.
    """
    members = [
        Member(Server(index, name, _cap(rows_a_server)), opener)
        for index, (name, opener) in enumerate(openers.items())
    ]
    try:
        with ThreadPoolExecutor(min(32, len(members))) as pool:
            missing = [each for each in pool.map(_connect, members) if each is not None]
        if len(missing) == len(members):
            raise missing[0]
        for error in missing:
            on_note(error.message)
        known = [member for member in members if member.engine is not None]
        _check_same(known)
    except BaseException:
        for member in members:
            member.close()
        raise
    return FleetEngine(members, is_endless=is_endless)


def _cap(rows: int | None) -> Cap:
    return Cap(START, MAX) if rows is None else Cap(rows, rows)


def _connect(member: Member) -> EngineError | None:
    """Ask one who it is; the error where nobody answers, which is then down."""
    try:
        member.connect()
    except EngineError as err:
        member.server.state = ServerState.DOWN
        return err
    return None


def _check_same(members: Sequence[Member]) -> None:
    first = members[0].connect()
    checksum = first.model_checksum()
    for member in members[1:]:
        why = why_other(member.connect(), first.facts, checksum)
        if why is not None:
            raise UsageError(
                f"{member.server.name} cannot speak beside {members[0].server.name}: {why}",
                hint="give servers of one model and version",
            )
