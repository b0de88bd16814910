"""Readers of streams that go on wherever they were: each frame is written down, whatever became of the connection.

A reader keeps the last id that it has read whole, and opens the stream again from there when the connection ends. It
judges nothing; `repeated` and `missed` say what a validator wants to know: each position once, in order, none left out.
"""

import http.client
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise

from tests.system.calling import Caller, Frame, Listening
from tests.waiting import until

NOBODY = (OSError, http.client.HTTPException, AssertionError)
"""How a stream that breaks off, or is refused because the service boots, looks from here."""


class Follower(threading.Thread):
    """One reader of one stream, until it has read the last frame."""

    def __init__(self, caller: Caller, path: str, last: Callable[[Frame], bool]) -> None:
        super().__init__(daemon=True)
        self.caller = caller
        self.path = path
        self.frames: list[Frame] = []
        self.last_id: str | None = None
        self.opened = 0
        self.greeted = False
        self._is_last = last
        self._over = threading.Event()

    def run(self) -> None:
        """Read to the end."""
        until(self._read, what=f"the end of {self.path}", within_s=120)

    def stop(self) -> None:
        """Read no more: something else has failed."""
        self._over.set()

    def _read(self) -> bool:
        """Whether the last frame was read on this connection."""
        try:
            with Listening(self.caller, self.path, self.last_id, timeout_s=5.0) as frames:
                self.opened += 1
                for frame in frames:
                    self.last_id = frame.id or self.last_id
                    if frame.name in ("hello", "settled_while_away"):
                        self.greeted = True
                        continue
                    self.frames.append(frame)
                    if self._is_last(frame):
                        return True
        except NOBODY:
            pass
        return self._over.is_set()

    @property
    def ids(self) -> list[str]:
        """Every id that was read, in the order of reading."""
        return [frame.id for frame in self.frames]


def repeated(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours that do not rise."""
    return [(before, after) for before, after in pairwise(positions) if after <= before]


def missed(positions: Sequence[int], recorded: Sequence[int]) -> list[int]:
    """What was recorded and not read."""
    return sorted(set(recorded) - set(positions))
