"""Sessions whose speech is made elsewhere: other threads bring news, the caller waits for it."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod

from voxcli.engine.base import Event, SpeechEngine, SpeechSession
from voxcli.errors import EngineFaultError

WAIT_S = 1.0  # for news, in one step


class NewsSession(SpeechSession):
    """See `SpeechSession`; one that can also be asked without waiting.

    Attributes:
        bell: is set whenever there is news; who waits for several sessions gives them one.
    """

    def __init__(self) -> None:
        self.bell = threading.Event()
        self._is_woken = False

    @abstractmethod
    def poll(self) -> list[Event]:
        """What is new, without waiting; an error of any kind ends its speech alone."""

    def limit(self, num_at_once: int) -> None:
        """Ask who speaks for no more at once, where it is asked segment by segment."""

    def patience_s(self) -> float | None:
        """Seconds until there may be news without a bell; None for ever."""
        return None

    def step(self) -> list[Event]:
        """Wait for news of the speeches, for so long that its caller can look at other things.

        Raises:
            EngineFaultError: who speaks stops or is gone, and with it everything in flight.
        """
        end_s = time.monotonic() + WAIT_S
        while not self.is_idle:
            self.bell.clear()
            if events := self.poll():
                for _, event in events:
                    if isinstance(event, EngineFaultError):
                        raise event
                return events
            left_s = end_s - time.monotonic()
            if self._is_woken or left_s <= 0.0:
                break
            if not self.is_idle:
                patience_s = self.patience_s()
                self.bell.wait(left_s if patience_s is None else min(left_s, patience_s))
        self._is_woken = False
        return []

    def wake(self) -> None:
        self._is_woken = True
        self.bell.set()


class NewsEngine(SpeechEngine):
    """An engine whose speech is made elsewhere.

    Attributes:
        states_streams: whether `facts.max_streams` is what who speaks is made for; else it is only
            what it is given at most.
    """

    states_streams = True

    @abstractmethod
    def session(self, *, num_reserved: int = 0) -> NewsSession:
        """See the base."""

    @abstractmethod
    def is_up(self) -> bool:
        """Whether who speaks answers now; takes a few seconds at most, from any thread."""
