"""Ctrl-C at once: a callback that runs while the main thread is still busy in the engine.

Python itself raises KeyboardInterrupt when the main thread comes back from the call it is in, which
may take a whole step of a large model. The signal's number goes through a socket to a thread first.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_interrupt(callback: Callable[[], None]) -> Iterator[None]:
    """Call `callback`, in another thread, as soon as SIGINT arrives during the block.

    KeyboardInterrupt is raised as ever. Outside the main thread, which gets no signals, it does
    nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def watch() -> None:
        while numbers := receiver.recv(16):
            if signal.SIGINT in numbers:
                callback()

    watcher = threading.Thread(target=watch, name="interrupt", daemon=True)
    watcher.start()
    previous = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        sender.close()
        watcher.join()
        receiver.close()
