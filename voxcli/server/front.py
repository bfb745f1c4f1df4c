"""The engine of a server with replicas: it plans itself, and they speak.

What needs no model is done here: facts, plans, checksums. All else goes to the replicas, side by
side, as to any servers that speak the same.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from voxcli.engine.base import EngineFacts, Setup, SpeechEngine, SpeechSession, Wanted
from voxcli.engine.fleet.engine import FleetEngine
from voxcli.engine.fleet.open import open_fleet
from voxcli.engine.remote.client import RemoteEngine, ask_who
from voxcli.engine.remote.transport import Server
from voxcli.errors import EngineError, UnavailableError, UsageError
from voxcli.hub import ModelFiles
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.server.replicas import Replica, Replicas, ReplicaState
from voxcli.server.schema import ReplicaRow
from voxcli.utterance import Recording, Use, Utterance, VoiceEncoding

Stamp = tuple[tuple[int, int, int], ...]  # size, time and inode of each file


class FrontEngine(SpeechEngine):
    """See the module, and `SpeechEngine` for the contract of each method.

    Args:
        planner: never started.
        files: of the model, which has to stay the same while replicas come and go.
        wanted: what a replica has to be; its device is each replica's own.
        max_streams: of each replica.
    """

    def __init__(
        self,
        planner: SpeechEngine,
        replicas: Replicas,
        files: ModelFiles,
        wanted: Wanted,
        max_streams: int,
    ) -> None:
        self.replicas = replicas
        self._planner = planner
        self._files = files
        self._stamp = _stamp(files)
        self._wanted = wanted
        self._max_streams = max_streams
        self._fleet: FleetEngine | None = None
        self.facts: EngineFacts = replace(
            planner.facts,
            max_streams=max_streams * len(replicas.all),
            can_encode_beside=True,
            stages=(),
        )

    @property
    def setup(self) -> Setup:
        made = self._ready().setup
        return replace(made, device=f"{len(self.replicas.all)} replicas")

    def start(self, wanted: Iterable[Values] = ()) -> None:
        """Start the replicas and wait until one is ready; the others join later. Closed meanwhile,
        it ends without any.

        Raises:
            VoxError: none of them could be started.
        """
        if self._fleet is not None:
            self._fleet.start(wanted)
            return
        self.replicas.on_ready = self._join
        self.replicas.start()
        openers = {each.name: partial(self._connect, each) for each in self.replicas.all}
        while self._fleet is None and self.replicas.wait_for_one():
            try:
                self._fleet = open_fleet(openers, rows_a_server=self._max_streams, is_endless=True)
            except EngineError:  # it ended in this very moment
                continue

    def plan(self, utterance: Utterance) -> Plan:
        return self._planner.plan(utterance)

    def session(self, *, num_reserved: int = 0) -> SpeechSession:
        """See the base; places are the replicas' to give."""
        session = self._ready().session(num_reserved=num_reserved)
        for replica in self.replicas.all:
            if replica.state is ReplicaState.READY:
                self._join(replica)
        return session

    def model_checksum(self) -> str:
        return self._planner.model_checksum()

    def encoder_checksum(self) -> str:
        return self._planner.encoder_checksum()

    def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        return self._ready().encode(recording, uses)

    def mismatch(self, wanted: Wanted) -> str | None:
        return self._ready().mismatch(wanted)

    def check_up(self) -> None:
        if not self.replicas.num_ready:
            raise UnavailableError("no replica is ready", hint="try again in a moment")

    def rows(self) -> list[ReplicaRow]:
        """How each replica is, and what it has done; from any thread."""
        counts, streams = {}, {}
        if self._fleet is not None:
            counts, streams = self._fleet.server_counts(), self._fleet.num_in_flight()
        return [
            ReplicaRow(
                name=each.name,
                status=each.state,
                pid=each.pid,
                streams=streams.get(each.name, 0),
                rows=int(counts.get(each.name, {}).get("rows", 0)),
                audio_s=float(counts.get(each.name, {}).get("audio_s", 0.0)),
                restarts=each.num_restarts,
                error=_trouble(each, counts.get(each.name, {})),
            )
            for each in self.replicas.all
        ]

    def close(self) -> None:
        """End the replicas; always safe, from any thread."""
        if self._fleet is not None:
            self._fleet.close()
        self.replicas.close()

    def _ready(self) -> FleetEngine:
        if self._fleet is None:
            raise UnavailableError("no replica is ready", hint="try again in a moment")
        return self._fleet

    def _join(self, replica: Replica) -> None:
        if self._fleet is not None:
            self._fleet.ask_again(replica.name)

    def _connect(self, replica: Replica) -> RemoteEngine:
        """Find out whether a replica is there and speaks what it should.

        Raises:
            EngineError: it is not there, or not yet.
            UsageError: it speaks something else.
        """
        server = Server(replica.socket, replica.name, waits_when_busy=False)
        wanted = replace(self._wanted, device=replica.order.device)
        try:
            found = ask_who(server, wanted)
        except (OSError, http.client.HTTPException, ValueError) as err:
            raise EngineError(f"{replica.name} does not answer") from err
        if found.facts is None or found.setup is None:
            raise UsageError(f"{replica.name}: {found.mismatch}")
        if _stamp(self._files) != self._stamp:
            raise UsageError(
                f"the files of '{self.facts.model}' have changed", hint="start the server again"
            )
        return _ReplicaEngine(server, wanted, found.facts, found.setup)


class _ReplicaEngine(RemoteEngine):
    """A replica; that it has loaded the files that are there was asked when it was found."""

    def model_checksum(self) -> str:
        return ""


def _trouble(replica: Replica, counts: Mapping[str, float | str]) -> str | None:
    """Why it is given nothing, or why its process ended last."""
    if "retired" in counts:
        return str(counts["retired"])
    return replica.fault.message if replica.fault else None


def _stamp(files: ModelFiles) -> Stamp:
    found = [path.stat() for path in files.files]
    return tuple((each.st_size, each.st_mtime_ns, each.st_ino) for each in found)
