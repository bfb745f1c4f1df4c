"""A number of places, each taken for as long as a block lasts. Of one event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from voxcli.errors import BusyError
from voxcli.server.worker import RETRY_AFTER_S


class Places:
    """See the module.

    Args:
        what: takes them, in a message.
        most: that there are.
    """

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most
        self.num_taken = 0

    def enter(self) -> AbstractContextManager[None]:
        """A block that has a place.

        Raises:
            BusyError: there is none, now.
        """
        if self.num_taken >= self._most:
            raise BusyError(
                f"{self.num_taken} {self._what} are open", hint=f"try again in {RETRY_AFTER_S} s"
            )
        return self._taken()

    @contextmanager
    def _taken(self) -> Iterator[None]:
        self.num_taken += 1
        try:
            yield
        finally:
            self.num_taken -= 1
