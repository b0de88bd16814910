"""Processes under watch: real ones, and how they end."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from jackline.worker import keeper
from jackline.worker.processes import end_marked, marked
from jackline.workspaces.contract import Observation, WorkspaceRef
from jackline.workspaces.process import MARK, ProcessIdentity, ProcessProvider, ProcessWatcher, look
from tests.waiting import eventually

pytestmark = [pytest.mark.system, pytest.mark.origin("C3", "C7", "R13")]

FORK = """
import os, signal
if os.fork() == 0:
    os.setsid()
    signal.pause()
signal.pause()
"""


class Watched:
    """A provider, its watcher, and what was told."""

    def __init__(self) -> None:
        self.provider = ProcessProvider(grace_s=0.3)
        self.watcher = ProcessWatcher(self.provider, self._tell)
        self.told: list[Observation] = []

    async def begin(self, *command: str) -> WorkspaceRef:
        """Start a command as workspace w1 and watch it."""
        spec = {"command": list(command)}
        await self.provider.place("w1", spec)
        attached = await self.provider.attach(WorkspaceRef("w1", spec=spec))
        ref = WorkspaceRef("w1", attached.identity, spec)
        self.watcher.watch(ref)
        return ref

    async def next(self) -> Observation:
        """What is told next."""

        async def once() -> bool:
            return bool(self.told)

        await eventually(once, what="something is told about the process")
        return self.told.pop(0)

    def _tell(self, workspace_id: str, observations: Sequence[Observation]) -> None:
        assert "w1" == workspace_id
        self.told += observations


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    one = Watched()
    yield one
    one.watcher.forget("w1")
    end_marked(MARK, "w1")
    for child in one.provider._children.values():
        child.process.kill()
        child.process.wait()


@pytest.mark.parametrize("code", [0, 3])
async def test_an_exit_is_told_with_its_code(watched: Watched, code: int) -> None:
    ref = await watched.begin("sh", "-c", f"exit {code}")
    seen = await watched.next()

    assert ("ended", "ProcessExited", code) == (seen.kind, seen.reason, seen.exit_code)
    assert f"exited with {code}" == seen.message
    assert ref.identity == seen.identity
    assert not watched.watcher.watching("w1")


async def test_a_signal_is_told_as_shells_tell_it(watched: Watched) -> None:
    ref = await watched.begin("sleep", "60")
    os.kill(pid_of(ref), signal.SIGTERM)
    seen = await watched.next()

    assert (143, "ended by SIGTERM") == (seen.exit_code, seen.message)


async def test_a_killed_process_is_no_memory_fault_when_the_kernel_counted_none(watched: Watched) -> None:
    ref = await watched.begin("sleep", "60")
    os.kill(pid_of(ref), signal.SIGKILL)
    seen = await watched.next()

    assert (137, "ended by SIGKILL") == (seen.exit_code, seen.message)
    assert (await watched.provider.memory_fault(ref)) is None


@pytest.mark.origin("C36")
async def test_a_kill_that_the_kernel_counted_is_called_a_memory_limit(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter([2, 3, 3, 3])
    monkeypatch.setattr(keeper, "oom_kills", lambda pid: next(counts))
    ref = await watched.begin("sleep", "60")
    os.kill(pid_of(ref), signal.SIGKILL)

    assert "ended by SIGKILL: memory limit" == (await watched.next()).message


@pytest.mark.parametrize(
    ("line", "file", "text"),
    [
        ("0::/a/b", "a/b/memory.events", "low 0\noom 4\noom_kill 2\n"),
        ("4:memory:/a", "memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        ("0::/on/the/host", "memory.events", "oom_kill 2\n"),
    ],
)
def test_kills_for_want_of_memory_are_read_from_the_cgroup(tmp_path: Path, line: str, file: str, text: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)

    assert 2 == keeper._oom_kills_of(line, tmp_path)


@pytest.mark.parametrize("line", ["0::/none", "3:cpuset:/a", "4:memory:/none"])
def test_a_cgroup_that_counts_nothing_is_not_taken_for_zero(tmp_path: Path, line: str) -> None:
    (tmp_path / "memory.events").write_text("low 0\n")

    assert keeper._oom_kills_of(line, tmp_path) is None


async def test_the_end_of_a_process_that_is_not_ours_is_told_without_a_code(watched: Watched) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    identity = ProcessIdentity.at(stranger.pid)
    watched.watcher.watch(WorkspaceRef("w1", str(identity)))
    stranger.kill()
    seen = await watched.next()
    stranger.wait()

    assert ("ended", "ProcessExited", None) == (seen.kind, seen.reason, seen.exit_code)


async def test_a_process_may_be_stood_on_by_its_pid_and_is_not_ended_by_us(watched: Watched) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    spec = {"pid": stranger.pid}
    await watched.provider.place("w1", spec)
    attached = await watched.provider.attach(WorkspaceRef("w1", spec=spec))

    assert str(ProcessIdentity.at(stranger.pid)) == attached.identity
    stranger.kill()
    stranger.wait()


async def test_a_boot_that_is_over_has_ended_its_processes(watched: Watched) -> None:
    ref = await watched.begin("sleep", "60")
    before = ProcessIdentity(pid_of(ref), str(identity_of(ref).started), "another boot")

    assert ("ended", "the machine was started anew") == ((seen := look(before)).kind, seen.message)


async def test_teardown_ends_what_the_process_has_started(watched: Watched) -> None:
    ref = await watched.begin(sys.executable, "-c", FORK)

    async def forked() -> bool:
        return 2 == len(list(marked(MARK, "w1")))

    await eventually(forked, what="the process has a child")

    assert await watched.provider.teardown(ref)
    assert [] == list(marked(MARK, "w1"))


async def test_teardown_kills_a_process_that_does_not_listen(watched: Watched) -> None:
    ref = await watched.begin("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
    await asyncio.sleep(0)

    assert await watched.provider.teardown(ref)
    assert (await watched.next()).exit_code in (137, 143)


@pytest.mark.parametrize("text", ["", "proc:0:1:b", "proc:x:1:b", "dir:1:2:m", "proc:1:1"])
def test_what_names_no_process_is_no_identity(text: str) -> None:
    assert ProcessIdentity.of(text) is None


def identity_of(ref: WorkspaceRef) -> ProcessIdentity:
    identity = ProcessIdentity.of(ref.identity or "")
    assert identity is not None
    return identity


def pid_of(ref: WorkspaceRef) -> int:
    return identity_of(ref).pid
