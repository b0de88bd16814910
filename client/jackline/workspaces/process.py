"""Processes as workspaces: known by pid, start and boot, because pids are used again.

A process is started here (`spec = {"command": [...]}`, `cwd`, `env`), or one that is there already is stood on
(`spec = {"pid": N}`). Its end is noticed through a descriptor of the process, without asking again and again. How it
ended is known to its parent alone: of our own children the exit code is told (a signal as 128 + its number, as shells
do), of others only that they ended.

An end by SIGKILL while the kernel counted an out-of-memory kill in the process's cgroup is called `memory limit`.

What was started here carries its workspace in its environment; only that is ever ended by us, with all of its session.
Failure: a process that cannot be seen (another user's `/proc`) is `watch_dropped`, never gone.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from jackline.worker import keeper
from jackline.worker.processes import end_marked, may_be_this_boot
from jackline.workspaces.contract import (
    MEMORY_LIMIT,
    Attached,
    NotOurs,
    Observation,
    PlaceFailed,
    WorkspaceRef,
)

NAME = "process"
PREFIX = "proc"
MARK = "JACKLINE_WORKSPACE_ID"
GRACE_S = 10.0  # from SIGTERM to SIGKILL at a teardown
MARK_LOOKS, MARK_LOOK_S = 40, 0.05  # at the environment of a process that shows none
LOOK_S = 1.0  # between two looks where the kernel has no descriptors of processes
ENDED = "ProcessExited"
NO_PROCESS, NOT_STARTED = "NoProcess", "ProcessNotStarted"

Tell = Callable[[str, Sequence[Observation]], None]


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process for its whole life, and no other."""

    pid: int
    started: str
    boot_id: str

    def __str__(self) -> str:
        return f"{PREFIX}:{self.pid}:{self.started}:{self.boot_id}"

    @classmethod
    def of(cls, text: str) -> "ProcessIdentity | None":
        """The identity that a text names, or None when it names none."""
        parts = text.split(":", 3)
        if len(parts) != 4 or parts[0] != PREFIX or not parts[1].isdigit() or int(parts[1]) <= 0:
            return None
        return cls(int(parts[1]), parts[2], parts[3])

    @classmethod
    def at(cls, pid: int) -> "ProcessIdentity | None":
        """The identity of the process that has that pid now."""
        started = _start_of(pid)
        return None if started is None else cls(pid, started, keeper.boot_id())


@dataclass(slots=True)
class _Child:
    """A process that was started here."""

    process: subprocess.Popen[bytes]
    identity: ProcessIdentity
    kills: int | None


class ProcessProvider:
    """Starts processes, knows them again, and ends those that it started."""

    def __init__(self, *, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._children: dict[str, _Child] = {}

    @property
    def name(self) -> str:
        """Which kind."""
        return NAME

    async def place(self, workspace_id: str, spec: Any) -> None:
        """Start the process, once; one that the spec names by its pid is there already."""
        asked = spec if isinstance(spec, dict) else {}
        if workspace_id in self._children or "pid" in asked:
            return
        command = asked.get("command")
        if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
            msg = "the spec names neither a command nor a pid"
            raise PlaceFailed(NO_PROCESS, msg)
        environment = {**os.environ, **(asked.get("env") or {}), MARK: workspace_id}
        try:
            # In a thread: it returns when the command has been loaded, which may take a while.
            process = await asyncio.to_thread(_start, command, asked.get("cwd"), environment)
        except OSError as error:
            raise PlaceFailed(NOT_STARTED, f"{command[0]}: {error.strerror}") from error
        identity = ProcessIdentity(process.pid, _start_of(process.pid) or "", keeper.boot_id())
        self._children[workspace_id] = _Child(process, identity, keeper.oom_kills(process.pid))

    async def attach(self, ref: WorkspaceRef) -> Attached:
        """The process's identity."""
        child = self._children.get(ref.workspace_id)
        pid = ref.spec.get("pid") if isinstance(ref.spec, dict) else None
        identity = child.identity if child is not None else ProcessIdentity.at(pid) if isinstance(pid, int) else None
        if identity is None:
            msg = f"there is no process {pid}" if pid is not None else "no process was started for this workspace here"
            raise PlaceFailed(NO_PROCESS, msg)
        return Attached(str(identity), details={"pid": str(identity.pid), "host": socket.gethostname()})

    async def assert_(self, ref: WorkspaceRef) -> None:
        """Nothing: nobody reaps processes behind our back."""

    async def continuity(self, ref: WorkspaceRef) -> Observation:
        """Whether that very process is still running; how it ended, if it was our child."""
        identity = self._identity(ref)
        seen = look(identity)
        child = self._children.get(ref.workspace_id)
        # Asked after the look: what a look takes for ended has left its exit code by then.
        if child is None or child.identity != identity or (code := child.process.poll()) is None:
            return seen
        exit_code, words = exit_of(code)
        fault = await self.memory_fault(ref)
        message = f"{words}: {fault}" if fault else words
        return Observation("ended", str(identity), reason=ENDED, message=message, exit_code=exit_code)

    async def memory_fault(self, ref: WorkspaceRef) -> str | None:
        """`memory limit` when our child was killed and the kernel counted an out-of-memory kill where it ran."""
        child = self._children.get(ref.workspace_id)
        if child is None or child.process.poll() != -signal.SIGKILL or child.kills is None:
            return None
        # A process that has ended is in no cgroup any more; ours, from which it was started, holds the counter.
        kills = keeper.oom_kills(os.getpid())
        return MEMORY_LIMIT if kills is not None and kills > child.kills else None

    async def teardown(self, ref: WorkspaceRef) -> bool:
        """End the process and everything that it has started: SIGTERM, and SIGKILL after the grace."""
        identity = self._identity(ref)
        if look(identity).kind == "present":
            ours = await _carries_mark(identity.pid, ref.workspace_id)
            if not ours and look(identity).kind == "present":
                msg = f"process {identity.pid} was not started for workspace {ref.workspace_id}: it is left alone"
                raise NotOurs(msg)
            if ours:
                await self._end(ref.workspace_id, identity)
        await asyncio.to_thread(end_marked, MARK, ref.workspace_id)
        gone = look(identity).kind != "present"
        self._reap(ref.workspace_id)
        return gone

    def _identity(self, ref: WorkspaceRef) -> ProcessIdentity:
        child = self._children.get(ref.workspace_id)
        identity = ProcessIdentity.of(ref.identity or "") or (child.identity if child else None)
        if identity is None:
            msg = f"{ref.identity!r} names no process"
            raise PlaceFailed(NO_PROCESS, msg)
        return identity

    async def _end(self, workspace_id: str, identity: ProcessIdentity) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            _signal_session(identity.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace_s):
                    await ended(identity)
            self._reap(workspace_id)
            if look(identity).kind != "present":
                return

    def _reap(self, workspace_id: str) -> None:
        """Take the child's exit, if it has ended: asked after a look, because what that takes for ended has left it."""
        child = self._children.get(workspace_id)
        if child is not None:
            child.process.poll()


class ProcessWatcher:
    """Watches processes and tells how they end: `tell(workspace_id, observations)`."""

    def __init__(self, provider: ProcessProvider, tell: Tell) -> None:
        self._provider = provider
        self._tell = tell
        self._watching: dict[str, asyncio.Task[None]] = {}

    def watch(self, ref: WorkspaceRef) -> None:
        """Begin to watch a process."""
        self.forget(ref.workspace_id)
        self._watching[ref.workspace_id] = asyncio.get_running_loop().create_task(self._watch(ref))

    def forget(self, workspace_id: str) -> None:
        """Watch a process no more."""
        watching = self._watching.pop(workspace_id, None)
        if watching is not None:
            watching.cancel()

    def watching(self, workspace_id: str) -> bool:
        """Whether a process is being watched."""
        return workspace_id in self._watching

    async def _watch(self, ref: WorkspaceRef) -> None:
        identity = ProcessIdentity.of(ref.identity or "")
        blind = False
        while identity is not None:
            seen = await self._provider.continuity(ref)
            if seen.is_loss:
                self._watching.pop(ref.workspace_id, None)
                self._tell(ref.workspace_id, [seen])
                return
            if (seen.kind == "watch_dropped") != blind:
                blind = not blind
                self._tell(ref.workspace_id, [seen] if blind else [seen, Observation("synced")])
            if blind:
                await asyncio.sleep(LOOK_S)
            else:
                await ended(identity)


def look(identity: ProcessIdentity) -> Observation:
    """What is seen of a process by its identity alone: an end only on evidence, never because it cannot be seen."""
    if not may_be_this_boot(identity.boot_id):
        return _gone(identity, "the machine was started anew")
    started = _start_of(identity.pid)
    if not _is_pid(identity.pid):
        return _gone(identity, "the process has ended")
    if started is None:
        return Observation("watch_dropped", str(identity), message=f"process {identity.pid} cannot be seen")
    if started != identity.started:
        return _gone(identity, "the process has ended, and its pid is another's")
    if not keeper.is_running({"pid": identity.pid, "started": identity.started}):
        return _gone(identity, "the process has ended")
    return Observation("present", str(identity))


def _is_pid(pid: int) -> bool:
    """Whether some process has that pid; this needs no descriptor and no right."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it is there, and another user's
    return True


def exit_of(code: int) -> tuple[int, str]:
    """An exit code as shells have it, and in words, of what `Popen` calls a return code."""
    if code >= 0:
        return code, f"exited with {code}"
    with contextlib.suppress(ValueError):
        return 128 - code, f"ended by {signal.Signals(-code).name}"
    return 128 - code, f"ended by signal {-code}"


async def ended(identity: ProcessIdentity) -> None:
    """Return when the process may have ended: at once when it has, `LOOK_S` later where the kernel cannot tell."""
    if not hasattr(os, "pidfd_open"):
        await asyncio.sleep(LOOK_S)
        return
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    except OSError:
        await asyncio.sleep(LOOK_S)
        return
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(descriptor, over.set)
    try:
        if look(identity).kind == "present":
            await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _gone(identity: ProcessIdentity, words: str) -> Observation:
    return Observation("ended", str(identity), reason=ENDED, message=words)


def _start(command: list[str], cwd: Any, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)


def _start_of(pid: int) -> str | None:
    """When the process started; in clock ticks since boot where /proc tells it."""
    if sys.platform == "linux":
        return keeper.start_of(pid) or None  # never the other unit: it would look like another process
    with contextlib.suppress(psutil.Error, OSError):
        return f"{psutil.Process(pid).create_time():.3f}"
    return None


async def _carries_mark(pid: int, workspace_id: str) -> bool:
    """Whether the process was started for that workspace.

    For a moment after its start the kernel shows an empty environment, which says nothing: it is asked again.
    """
    for _ in range(MARK_LOOKS):
        with contextlib.suppress(psutil.Error, OSError):
            if environment := psutil.Process(pid).environ():
                return environment.get(MARK) == workspace_id
        await asyncio.sleep(MARK_LOOK_S)
    return False


def _signal_session(pid: int, number: signal.Signals) -> None:
    """To the process's own group when it leads one, else to the process alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
