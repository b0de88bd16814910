"""The client's face: every operation of the service's wire contract on one object."""

from pathlib import Path
from types import TracebackType
from typing import Self

from jackline._async.holding import AsyncHolding
from jackline._async.leading import AsyncLeading
from jackline._async.lists import AsyncLists
from jackline._async.operating import AsyncOperating
from jackline._async.transport import AsyncTransport
from jackline._async.turning import AsyncTurning
from jackline._async.working import AsyncWorking
from jackline._async.workspaces import AsyncWorkspaces
from jackline.address import find
from jackline.clock import SYSTEM, Clock
from jackline.retrying import Retry

RETRY = Retry()


class AsyncClient(AsyncLeading, AsyncHolding, AsyncTurning, AsyncWorking, AsyncLists, AsyncOperating):
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
        self.transport = AsyncTransport(find(url, key, data_dir), retry, clock)
        self.workspaces = AsyncWorkspaces(self.transport)

    @property
    def url(self) -> str:
        """Where the service is."""
        return self.transport.address.url

    async def disconnect(self) -> None:
        """Close every connection."""
        await self.transport.disconnect()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.disconnect()
