"""A base for what closes itself at the end of a `with` block."""

from __future__ import annotations

from typing import Self


class Closing:
    """Gives `close` a `with` block, which it ends however the block does."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
