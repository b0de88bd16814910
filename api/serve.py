"""Serving: one process, one event loop, one data directory, and an end that loses nothing.

The server listens as soon as its socket is bound, so that ``/livez`` answers and ``/readyz`` names the step of the
boot; everything else is refused ``booting`` until then. ``jackline ready on URL`` goes to standard error once
``/readyz`` is 200, after ``DIR/server.url`` was written. With port 0, that file's port is taken again if it is free.

SIGTERM and SIGINT drain: nothing is granted any more, streams are told and ended as ours, requests under way and their
appends are finished, then the journal is closed and the process exits 0, within ``JACKLINE_DRAIN_S`` and a little. A
second signal does not wait.

Whatever keeps the service from starting is one line with the values and the remedy, and exit code 1 (2 for a setting).
"""

import asyncio
import contextlib
import errno
import gc
import logging
import signal
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
import uvloop

from api import logs
from api.app import build_app
from api.attention import AttentiveClock
from api.bodies import MAX_BYTES
from api.boot import Boot
from api.clock import new_id, system_clock
from api.descriptors import carried
from api.node import Node
from api.protocol import BoundedHttp
from api.settings import Settings
from api.sockets import Socket
from api.verbs import fault
from jackline.cli.exits import USAGE, Fault
from journal.errors import DataDirBusy, DataDirUnusable, JournalError, StorageFull
from journal.lock import DirLock, free_bytes

URL_NAME = "server.url"
KEEP_ALIVE_S = 75
SPARE_BYTES = 64 * 1024
"""With less than this free, a file that cannot be written means a full disk, whatever the error is called."""
PING_S = 5.0
"""How often a socket is pinged, and how long a pong may take: a dead line is found within twice that."""
STREAMS_END_S = 1.0
BACKLOG = 2_048

GC_THRESHOLDS = (20_000, 20, 100)
"""Almost everything that the service keeps is immutable and lives long: looking for cycles less often costs nothing."""

log = logging.getLogger(__name__)


class AddressUnusable(JournalError):
    """The service cannot listen where it was asked to; like its files, that is its operator's to put right."""

    code = "address_unusable"

    def __init__(self, host: str, port: int, problem: str) -> None:
        remedy = "stop what listens there, or give another --port (0 takes a free one)"
        super().__init__(f"cannot listen on {host}:{port}: {problem}", remedy, host=host, port=port)


class Server(uvicorn.Server):
    """The server, whose signals are ours: its own would be raised again after the end, and the exit would not be 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def run(settings: Settings) -> int:
    """Serve until a signal; the exit code.

    Raises:
        Fault: the service could not start; one line says why and what to do.
    """
    logs.configure()
    if not settings.loopback and not settings.insecure:
        message = f"{settings.host} can be reached from other machines, and keys would travel there in clear text"
        raise Fault(message, "put it behind TLS and listen on 127.0.0.1, or say --insecure", USAGE)
    settings = settings.model_copy(update={"streams": carried(settings.streams)})
    _prepare(settings.data_dir)
    listener = _bind(settings)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(serve(settings, listener))
    except JournalError as error:
        raise fault(error) from error
    except (OSError, sqlite3.Error) as error:
        raise fault(_unusable(settings.data_dir, error)) from error
    finally:
        listener.close()


def _unusable(data_dir: Path, error: Exception) -> JournalError:
    """What a file that could not be written says about the data directory: that it is full, or that it is no good."""
    free = free_bytes(data_dir)
    if free < SPARE_BYTES or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageFull(str(data_dir), free)
    return DataDirUnusable(str(data_dir), str(error))


async def serve(settings: Settings, listener: socket.socket) -> int:
    """Serve on this socket until a signal; the exit code."""
    return await _Service(settings, listener).main()


def _prepare(data_dir: Path) -> None:
    """Make the data directory if there is none, for its owner alone."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        unusable = DataDirUnusable(str(data_dir), error.strerror or str(error))
        raise fault(unusable) from error


def _bind(settings: Settings) -> socket.socket:
    """The socket to serve on; with port 0 that of the start before if it is free, so that callers find it again."""
    if settings.port == 0 and (before := _port_before(settings.data_dir)):
        with suppress(OSError):
            return _listen(settings.host, before)
    try:
        return _listen(settings.host, settings.port)
    except OSError as error:
        _blame_the_other(settings.data_dir)
        raise fault(AddressUnusable(settings.host, settings.port, error.strerror or str(error))) from error


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _port_before(data_dir: Path) -> int | None:
    """The port that the last start on this data directory wrote down, if there is one to be read."""
    with suppress(OSError, ValueError):
        return urlsplit((data_dir / URL_NAME).read_text().strip()).port
    return None


def _blame_the_other(data_dir: Path) -> None:
    """When the address is taken because this very data directory is served already, say that."""
    try:
        DirLock(data_dir).release()
    except DataDirBusy as busy:
        raise fault(busy) from busy
    except JournalError:
        return


def server_of(node: Node) -> Server:
    """A server for this node's application, with the bounds that hold for every connection."""
    return Server(
        uvicorn.Config(
            build_app(node),
            http=BoundedHttp,
            ws=Socket,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(node.settings.drain_s)),
            ws_max_size=MAX_BYTES,
            ws_ping_interval=PING_S,
            ws_ping_timeout=PING_S,
            ws_per_message_deflate=False,
        )
    )


class _Service:
    """One start of the service."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings = settings
        self._listener = listener
        self._clock = AttentiveClock(system_clock)
        self._node = Node(settings, self._clock, new_id())
        self._boot = Boot(self._node, settings.data_dir)
        self._server = server_of(self._node)
        self._stop = asyncio.Event()
        self._signals = 0

    async def main(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        serving = asyncio.ensure_future(self._server.serve([self._listener]))
        booting = asyncio.ensure_future(self._boot.up())
        stopping = asyncio.ensure_future(self._stop.wait())
        looking = asyncio.ensure_future(self._clock.look())
        try:
            await asyncio.wait({booting, stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
            if booting.done():
                booting.result()
                gc.collect()
                gc.freeze()
                gc.set_threshold(*GC_THRESHOLDS)
                self._announce()
                await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._end(booting, serving)
            stopping.cancel()
            looking.cancel()
        return 0

    def _signalled(self) -> None:
        self._signals += 1
        if self._signals > 1:
            self._server.force_exit = True
        self._stop.set()

    @property
    def url(self) -> str:
        """Where the service is, with the port that it really has."""
        host, port = self._listener.getsockname()[:2]
        shown = self._settings.host if self._settings.loopback else host
        return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"

    def _announce(self) -> None:
        if self._boot.admin_key is not None:
            print(f"jackline wrote the admin key to {self._boot.admin_key}", file=sys.stderr)
        place = self._settings.data_dir / URL_NAME
        new = place.with_name(place.name + ".new")
        new.write_text(self.url + "\n")
        new.rename(place)
        print(f"jackline ready on {self.url}", file=sys.stderr, flush=True)

    async def _end(self, booting: asyncio.Future[None], serving: asyncio.Future[None]) -> None:
        """The way down: told, drained, closed."""
        self._node.stop_taking()
        await self._streams_ended()
        self._server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        if not booting.done():
            booting.cancel()
            with suppress(asyncio.CancelledError, JournalError):
                await booting
        elif booting.exception() is None:
            await self._boot.down()

    async def _streams_ended(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(STREAMS_END_S, self._settings.drain_s)):
                while len(self._node.streams):
                    await asyncio.sleep(0.01)
