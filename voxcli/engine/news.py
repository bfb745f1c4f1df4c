"""Sessions whose speech is made elsewhere: other threads bring news, the caller waits for it."""

from __future__ import annotations

import threading
from abc import abstractmethod

from voxcli.engine.base import Event, SpeechSession
from voxcli.errors import EngineFaultError


class NewsSession(SpeechSession):
    """See `SpeechSession`; one that can also be asked without waiting.

    Attributes:
        bell: is set whenever there is news; who waits for several sessions gives them one.
    """

    def __init__(self) -> None:
        self.bell = threading.Event()

    @abstractmethod
    def poll(self) -> list[Event]:
        """What is new, without waiting; an error of any kind ends its speech alone."""

    def step(self) -> list[Event]:
        """Wait for news of the speeches.

        Raises:
            EngineFaultError: who speaks stops or is gone, and with it everything in flight.
        """
        while not self.is_idle:
            self.bell.clear()
            if events := self.poll():
                for _, event in events:
                    if isinstance(event, EngineFaultError):
                        raise event
                return events
            if not self.is_idle:
                self.bell.wait()
        return []
