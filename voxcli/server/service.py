"""What the routes share: the worker, the engine's facts, planning and counting.

It knows no HTTP. Planning runs beside the event loop: a long text takes a while to be prepared.
What is uploaded has a thread of its own, so that no text waits for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from voxcli.engine.base import OWN_VOICE, EngineFacts, SpeechEngine
from voxcli.errors import VoiceNotFoundError
from voxcli.plan import Plan
from voxcli.server.desk import Desk
from voxcli.server.dialect import Dialect
from voxcli.server.encoder import Encoder
from voxcli.server.metrics import Metrics
from voxcli.server.places import Places
from voxcli.server.recordings import Heard
from voxcli.server.schema import ReplicaRow
from voxcli.server.worker import EngineWorker
from voxcli.text.pronunciations import extended
from voxcli.utterance import Recording, Use, Utterance, VoiceEncoding
from voxcli.voices import VoiceStore

NUM_PLANNERS = 2
MAX_PLANS = 128  # that wait: more than the streams and the queue of a server
MAX_UPLOADS = 8  # that wait
MAX_FILES = 64  # that wait: lists of voices, most of all

T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """One engine behind the routes.

    Attributes:
        url: where it listens, for messages.
        num_restarts: fresh processes that went on after a fault.
        store: of the saved voices.
        dialect: how requests of clients are read.
        planners: for texts and orders.
        uploads: for recordings.
        files: for those of voices and models, which are read whole.
        heard: recordings that came with requests.
        live: WebSockets that are open.
        replicas: how those are that speak; none where the engine speaks itself.
        lexicon: how words are said where a client does not say it otherwise, as a table in CSV.
    """

    worker: EngineWorker
    url: str = ""
    num_restarts: int = 0
    started: int = field(default_factory=lambda: int(time.time()))
    store: VoiceStore = field(default_factory=VoiceStore)
    dialect: Dialect = field(default_factory=Dialect)
    replicas: Callable[[], list[ReplicaRow]] = list
    lexicon: str = ""
    live: Places = field(init=False, repr=False)
    metrics: Metrics = field(init=False)
    planners: Desk = field(init=False, repr=False)
    uploads: Desk = field(init=False, repr=False)
    files: Desk = field(init=False, repr=False)
    encoder: Encoder = field(init=False, repr=False)
    heard: Heard = field(init=False, repr=False, default_factory=Heard)
    _checksums: dict[bool, str] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        limits = self.worker.limits
        object.__setattr__(
            self, "live", Places("WebSockets", limits.max_streams + limits.max_queue)
        )
        metrics = Metrics(self.worker, self.num_restarts, self.replicas, self.live)
        object.__setattr__(self, "metrics", metrics)
        planners = Desk("texts", NUM_PLANNERS, max_waiting=MAX_PLANS)
        object.__setattr__(self, "planners", planners)
        object.__setattr__(self, "uploads", Desk("uploads", 1, max_waiting=MAX_UPLOADS))
        object.__setattr__(self, "files", Desk("questions", 1, max_waiting=MAX_FILES))
        object.__setattr__(self, "encoder", Encoder(self.worker))

    @property
    def facts(self) -> EngineFacts:
        """Of the engine, loaded or not."""
        return self.worker.engine.facts

    @property
    def remote_facts(self) -> EngineFacts:
        """The same as other processes see them."""
        return replace(
            self.facts,
            engine="voxcli serve",
            name=f"pid {os.getpid()}, {self.url}",
            max_streams=self.worker.limits.max_streams,
            stages=(),
        )

    @property
    def engine(self) -> SpeechEngine:
        """The engine, ready to speak.

        Raises:
            UnavailableError: not loaded, or not any more.
        """
        self.worker.check_ready()
        return self.worker.engine

    async def plan(self, utterance: Utterance, *, takes_aliases: bool = False) -> Plan:
        """As `SpeechEngine.plan`, with the recordings of a voice by name, beside other clients.

        Args:
            takes_aliases: the voice may have a name that stands for another.
        """
        engine = self.worker.engine

        def work() -> Plan:
            named = self._by_own_name(utterance) if takes_aliases else utterance
            return engine.plan(engine.in_voice(named, self.store))

        return await self.beside(work)

    def _by_own_name(self, utterance: Utterance) -> Utterance:
        """The utterance with the voice that its name stands for, if it is no voice itself.

        Raises:
            VoiceNotFoundError: the voice that it stands for is not there.
        """
        name = utterance.voice or OWN_VOICE
        target = self.dialect.voice(name)
        if target is None or self.has_voice(name):
            return utterance
        if not self.has_voice(target):
            raise VoiceNotFoundError(f"'{name}' stands for the voice '{target}', which is not here")
        return replace(utterance, voice=target)

    async def lexicon_with(self, own: str | None) -> str:
        """The server's lexicon with that of a request, which goes before; an empty one is none.

        Raises:
            UsageError: a line of it cannot be used.
        """
        if own is None or not (own and self.lexicon):
            return self.lexicon if own is None else own
        return await self.beside(lambda: extended(own, self.lexicon))

    def has_voice(self, name: str) -> bool:
        """Whether a voice is the model's own or a saved one."""
        if name.casefold() in {OWN_VOICE, *(each.casefold() for each in self.facts.voices)}:
            return True
        try:
            self.store.path(name)
        except VoiceNotFoundError:
            return False
        return True

    async def beside(self, work: Callable[[], T]) -> T:
        """Work for another thread than that of the event loop.

        Raises:
            BusyError: too much of it waits.
        """
        return await self.planners.run(work)

    async def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        """As `SpeechEngine.encode`, while others are spoken."""
        return await self.encoder.encode(recording, uses)

    async def checksum(self, *, of_encoder: bool) -> str:
        """Of what encodes recordings, or of the whole model, whose files are read once."""
        engine = self.worker.engine
        read = engine.encoder_checksum if of_encoder else engine.model_checksum

        def once() -> str:
            if of_encoder not in self._checksums:
                self._checksums[of_encoder] = read()
            return self._checksums[of_encoder]

        known = self._checksums.get(of_encoder)
        return await self.files.run(once) if known is None else known
