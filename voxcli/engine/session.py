"""Sessions of engines that speak segment by segment: whose a request is, and who is next."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Generic, TypeVar

import numpy as np

from voxcli.engine.base import Event, Speech, SpeechSession
from voxcli.engine.speech import SegmentedSpeech, SegmentRequest
from voxcli.errors import EngineError, VoxError
from voxcli.plan import Plan
from voxcli.utterance import FinishReason

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=SegmentRequest)


class SegmentedSession(SpeechSession, Generic[R]):
    """See `SpeechSession` for the contract of each method.

    A request has one owner from the moment it is begun until it ends, is tried again or is dropped,
    and `_owners` alone says who that is.

    Args:
        num_reserved: places that only the first request of a speech may take.
    """

    def __init__(self, *, num_reserved: int = 0) -> None:
        self._speeches: list[SegmentedSpeech[R]] = []
        self._owners: dict[R, SegmentedSpeech[R]] = {}
        self._num_reserved = num_reserved
        self._paused: set[Speech] = set()

    @abstractmethod
    def _speech_of(self, plan: Plan, *, is_live: bool) -> SegmentedSpeech[R]:
        """A plan as a speech.

        Raises:
            UsageError: it cannot be spoken as it is.
        """

    @abstractmethod
    def _num_free(self) -> int:
        """Requests that may be begun now."""

    @abstractmethod
    def _begin(self, request: R) -> None:
        """Have a request made."""

    @abstractmethod
    def _end(self, request: R) -> None:
        """Nothing that is still made of a request is taken; what it holds is free."""

    @property
    def is_idle(self) -> bool:
        return not self._speeches

    @property
    def has_work(self) -> bool:
        return bool(self._owners) or len(self._speeches) > len(self._paused)

    def add(self, plan: Plan, *, is_live: bool = True) -> Speech:
        """Let a plan join; its first request is begun by the next step."""
        speech = self._speech_of(plan, is_live=is_live)
        self._speeches.append(speech)
        return speech

    def pause(self, speech: Speech) -> None:
        if speech in self._speeches:
            self._paused.add(speech)

    def resume(self, speech: Speech) -> None:
        self._paused.discard(speech)

    def leave(self, speech: Speech) -> None:
        if speech in self._speeches:
            self._drop(speech)

    def close(self) -> None:
        for request in list(self._owners):
            self._disown(request)
        self._speeches.clear()
        self._paused.clear()

    # ------------------------------------------------------------ requests and what is made of them

    def _submit(self) -> list[Event]:
        """Begin as many requests as there is room for; who has the fewest is next.

        Returns:
            refusals, each of which ended its speech.
        """
        refused: list[Event] = []
        num_free = self._num_free()
        hopeful = [speech for speech in self._speeches if speech not in self._paused]
        while hopeful and num_free > 0:
            speech = min(hopeful, key=lambda speech: len(speech.requests))  # the earliest of equals
            if speech.requests and num_free <= self._num_reserved:
                break
            try:
                request = speech.next_request()
                if request is None:
                    hopeful.remove(speech)
                    continue
                self._begin_for(request, speech)
                num_free -= 1
            except Exception as err:
                hopeful.remove(speech)
                refused.append(self._fail(speech, err))
        return refused

    def _take(self, request: R, samples: np.ndarray, reason: FinishReason | None) -> list[Event]:
        """Hand its owner what was made of a request."""
        speech = self._owners.get(request)
        if speech is None or speech.is_done:  # it failed, tries again already, or was cut
            return []
        try:
            again = speech.accept(request, samples, reason)
            if again is not None or reason is not None:
                self._disown(request)
            if again is not None:
                self._begin_for(again, speech)
            return [(speech, chunk) for chunk in speech.ready_chunks()]
        except Exception as err:
            return [self._fail(speech, err)]

    def _drop_done(self) -> None:
        """Forget speeches that have ended; one that was cut has requests in flight."""
        for speech in [speech for speech in self._speeches if speech.is_done]:
            self._drop(speech)

    def _fail(self, speech: Speech, error: Exception) -> Event:
        self._drop(speech)
        return speech, _failure(error)

    def _begin_for(self, request: R, speech: SegmentedSpeech[R]) -> None:
        self._begin(request)
        self._owners[request] = speech

    def _disown(self, request: R) -> None:
        self._owners.pop(request, None)
        self._end(request)

    def _drop(self, speech: Speech) -> None:
        for request in [request for request, owner in self._owners.items() if owner is speech]:
            self._disown(request)
        self._speeches = [each for each in self._speeches if each is not speech]
        self._paused.discard(speech)


def _failure(error: Exception) -> VoxError:
    """What ends one speech. A bug that a text brings out is the end of that text alone: a fault of
    the device is met by the next step of all again."""
    if isinstance(error, VoxError):
        return error
    logger.error("a speech failed", exc_info=error)
    return EngineError(f"the engine failed: {type(error).__name__}: {error}")
