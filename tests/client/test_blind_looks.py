"""Looks at processes and directories that cannot be answered just then: never taken for an end."""

import contextlib
import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jackline.worker import keeper
from jackline.worker.processes import Identity
from jackline.workspaces.contract import WorkspaceRef
from jackline.workspaces.directory import DirectoryProvider
from jackline.workspaces.process import ProcessIdentity, look
from tests.waiting import until


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Inside, nothing can be opened."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.open(os.devnull, os.O_RDONLY)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[0], spare + 32), limits[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(spare))
        yield
    finally:
        for one in (spare, *taken):
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is there for the whole test."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"])
    yield process
    process.kill()
    process.wait()


def test_a_process_that_cannot_be_looked_at_has_not_ended(sleeper: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.at(sleeper.pid)
    assert identity is not None
    kept = Identity(sleeper.pid, keeper.start_of(sleeper.pid))

    with no_descriptor_left():
        seen, alive = look(identity), kept.alive

    assert ("watch_dropped", True) == (seen.kind, alive)
    assert "present" == look(identity).kind


def test_a_process_that_ended_is_known_to_have_ended_without_a_descriptor(sleeper: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.at(sleeper.pid)
    assert identity is not None
    kept = Identity(sleeper.pid, keeper.start_of(sleeper.pid))
    sleeper.kill()
    sleeper.wait()

    with no_descriptor_left():
        seen, alive = look(identity), kept.alive

    assert ("ended", False) == (seen.kind, alive)


MAIN_THREAD_ENDS = """
import ctypes, signal, threading
threading.Thread(target=signal.sigwait, args=[{signal.SIGUSR1}]).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_main_thread_has_ended_goes_on() -> None:
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", MAIN_THREAD_ENDS])
    identity = ProcessIdentity.at(process.pid) or ProcessIdentity(0, "", "")
    try:
        until(lambda: (keeper.stat_of(process.pid) or "?")[0] == "Z", what="the main thread has ended")
        assert "present" == look(identity).kind
    finally:
        process.kill()
        until(lambda: look(identity).kind == "ended", what="a zombie without threads is an end")
        process.wait()


def test_a_keeper_of_another_boot_is_nobody_however_alike() -> None:
    document = {"pid": os.getpid(), "started": keeper.start_of(os.getpid()), "boot_id": keeper.boot_id()}
    assert Identity.of(document) == Identity.mine()
    assert Identity.of(document | {"boot_id": "another boot"}) is None


async def test_a_mark_that_cannot_be_read_is_not_a_missing_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, ref = DirectoryProvider(tmp_path), WorkspaceRef("ws-1")
    await provider.place("ws-1", {})
    read = os.getxattr

    def fails(*_: object, **__: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "getxattr", fails)
    unseen = await provider.continuity(ref)
    monkeypatch.setattr(os, "getxattr", read)

    assert ("watch_dropped", "present") == (unseen.kind, (await provider.continuity(ref)).kind)
