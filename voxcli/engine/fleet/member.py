"""One server of a fleet: its engine, once it has answered, and whether it is still the same."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from voxcli.engine.base import EngineFacts
from voxcli.engine.fleet.dispatcher import Server
from voxcli.engine.news import NewsEngine
from voxcli.errors import EngineError, VoxError

logger = logging.getLogger(__name__)


class Member:
    """See the module. `look` may be called from any thread, one at a time.

    Args:
        server: what the dispatcher knows of it.
        open: finds out who is there; raises EngineError where nobody answers, another VoxError
            where somebody does who is no help.

    Attributes:
        engine: None before it has answered for the first time.
    """

    def __init__(self, server: Server, open: Callable[[], NewsEngine]) -> None:
        self.server = server
        self.engine: NewsEngine | None = None
        self._open = open

    def connect(self) -> NewsEngine:
        """The engine; asks who is there at the first time.

        Raises:
            EngineError: nobody answers.
            VoxError: somebody does who is no help.
        """
        if self.engine is None:
            self._take(self._open())
        assert self.engine is not None
        return self.engine

    def _take(self, engine: NewsEngine) -> None:
        self.engine = engine
        streams = engine.facts.max_streams
        self.server.cap.limit_to(streams, is_stated=engine.states_streams)

    def look(self, expected: EngineFacts, checksum: str) -> str | None:
        """Whether it is up, and speaks what the fleet speaks.

        Returns:
            None when it does; else why not, empty where it is merely down.
        """
        try:
            # a new one may be there
            if self.engine is None or self.server.num_asked_in_vain or self.server.is_unsure:
                found = self._open()
                why = why_other(found, expected, checksum)
                if why is not None or self.engine is not None:
                    found.close()
                else:
                    self._take(found)
                return why
            return None if self.engine.is_up() else ""
        except EngineError as err:
            logger.info("%s is down: %s", self.server.name, err)
            return ""
        except VoxError as err:
            return err.message

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()


def why_other(engine: NewsEngine, expected: EngineFacts, checksum: str) -> str | None:
    """Why an engine cannot speak beside those with these facts; None if it can.

    Args:
        checksum: of the model.
    """
    facts = replace(engine.facts, name=expected.name, max_streams=expected.max_streams)
    if facts != expected:
        names = [name for name in vars(expected) if getattr(facts, name) != getattr(expected, name)]
        words = ", ".join(name.replace("_", " ") for name in names)
        return f"it differs from the others in: {words}"
    if engine.model_checksum() != checksum:
        return f"its files of {expected.model} are others"
    return None
