"""The client's face: every operation of the service's wire contract on one object."""

from pathlib import Path
from types import TracebackType
from typing import Self

from jackline._sync.holding import Holding
from jackline._sync.leading import Leading
from jackline._sync.lists import Lists
from jackline._sync.operating import Operating
from jackline._sync.transport import Transport
from jackline._sync.turning import Turning
from jackline._sync.working import Working
from jackline._sync.workspaces import Workspaces
from jackline.address import find
from jackline.clock import SYSTEM, Clock
from jackline.retrying import Retry

RETRY = Retry()


class Client(Leading, Holding, Turning, Working, Lists, Operating):
    """A client of one service; use it as a context manager, or close it.

    Without `url` and `key` it looks where the service leaves them: see `jackline.address`.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        data_dir: Path | None = None,
        retry: Retry = RETRY,
        clock: Clock = SYSTEM,
    ) -> None:
        self.transport = Transport(find(url, key, data_dir), retry, clock)
        self.workspaces = Workspaces(self.transport)

    @property
    def url(self) -> str:
        """Where the service is."""
        return self.transport.address.url

    def disconnect(self) -> None:
        """Close every connection."""
        self.transport.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.disconnect()
