"""Directories under watch, on the real file system: what is told, and what is not."""

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jackline.workspaces import watching
from jackline.workspaces.contract import Observation, WorkspaceRef
from jackline.workspaces.directory import DirectoryProvider
from jackline.workspaces.looking import Pin
from jackline.workspaces.watching import LOOKERS, DirectoryWatcher
from tests.waiting import BOUND_S, eventually

pytestmark = [pytest.mark.system, pytest.mark.origin("C3", "C9", "C18", "R12", "R14")]


class Watched:
    """One directory under watch, and everything that was told about it."""

    def __init__(self, place: Path) -> None:
        self.provider = DirectoryProvider(place / "home" / "workspaces")
        self.told: list[Observation] = []
        self.noted: list[str] = []
        self.watcher = DirectoryWatcher(self._tell, self._note, rescan_s=3600.0)
        self.running: asyncio.Task[None] | None = None

    @property
    def path(self) -> Path:
        return self.provider.path("w1")

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.told]

    async def begin(self) -> "Watched":
        self.running = asyncio.create_task(self.watcher.run())
        await self.provider.place("w1", {"run_id": "r1"})
        pin = self.provider.pin(WorkspaceRef("w1"))
        assert isinstance(pin, Pin)
        self.watcher.watch("w1", pin)
        await self.looked()
        return self

    async def looked(self) -> None:
        """Wait until every look that was due is over."""
        await asyncio.sleep(0)

        async def idle() -> bool:
            watched = self.watcher._watched.get("w1")
            return watched is None or watched.looking is None or watched.looking.done()

        await eventually(idle, what="the looks are over")

    async def next(self) -> Observation:
        """What is told next."""

        async def once() -> Observation | None:
            return self.told[0] if self.told else None

        await eventually(once, what=f"something is told about {self.path}")
        return self.told.pop(0)

    async def end(self) -> None:
        if self.running is not None:
            self.running.cancel()
            with suppress(asyncio.CancelledError):
                await self.running

    def _tell(self, workspace_id: str, observations: Sequence[Observation]) -> None:
        assert "w1" == workspace_id
        self.told += observations

    def _note(self, happening: str, **_: Any) -> None:
        self.noted.append(happening)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    one = await Watched(tmp_path).begin()
    yield one
    await one.end()


@pytest.fixture
async def held(watched: Watched) -> AsyncIterator[Watched]:
    """A directory in which a command stands, as a run's command does: the kernel then keeps it until that has gone."""
    command = subprocess.Popen(["sleep", "60"], cwd=watched.path)
    yield watched
    command.kill()
    command.wait()


@pytest.mark.origin("C1")
async def test_a_deleted_directory_is_told_as_deleted_though_a_command_still_stands_in_it(held: Watched) -> None:
    (held.path / "work").write_text("x")
    shutil.rmtree(held.path)
    seen = await held.next()

    assert ("gone", "DirectoryDeleted") == (seen.kind, seen.reason)
    assert f"{held.path}: it was deleted" == seen.message


@pytest.mark.origin("C11")
async def test_a_loss_is_told_once_and_the_watch_is_over(watched: Watched) -> None:
    shutil.rmtree(watched.path)
    await watched.next()
    watched.path.mkdir()
    await watched.looked()

    assert [] == watched.told
    assert not watched.watcher.watching("w1")


async def test_another_directory_in_its_place_is_told_as_replaced(held: Watched) -> None:
    shutil.rmtree(held.path)
    held.path.mkdir()
    seen = await held.next()

    assert ("replaced", "DirectoryReplaced") == (seen.kind, seen.reason)
    assert seen.message is not None
    assert "it was deleted, and a directory with inode" in seen.message


async def test_a_copy_that_was_put_back_is_told_as_replaced(watched: Watched, tmp_path: Path) -> None:
    subprocess.run(["cp", "-a", watched.path, tmp_path / "backup"], check=True)
    shutil.rmtree(watched.path)
    (tmp_path / "backup").rename(watched.path)

    assert ("replaced", "DirectoryReplaced") == ((seen := await watched.next()).kind, seen.reason)


async def test_a_directory_that_was_moved_away_is_gone_and_it_is_told_where_it_went(
    watched: Watched, tmp_path: Path
) -> None:
    watched.path.rename(tmp_path / "there")
    seen = await watched.next()

    assert ("gone", "DirectoryDeleted") == (seen.kind, seen.reason)
    assert f"{watched.path}: it was moved to {tmp_path / 'there'}" == seen.message


async def test_a_directory_that_was_moved_away_and_back_at_once_is_not_lost(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "CONFIRM_S", 0.5)
    watched.path.rename(tmp_path / "there")

    async def suspected() -> bool:
        return watched.watcher._watched["w1"].suspected

    await eventually(suspected, what="a first look has missed it")
    (tmp_path / "there").rename(watched.path)
    await watched.looked()

    assert [] == watched.told
    assert watched.watcher.watching("w1")


@pytest.mark.parametrize("ancestor", ["home", "home/workspaces"])
async def test_a_directory_whose_parent_was_moved_away_is_gone(watched: Watched, tmp_path: Path, ancestor: str) -> None:
    (tmp_path / ancestor).rename(tmp_path / "there")
    seen = await watched.next()

    assert ("gone", "DirectoryDeleted") == (seen.kind, seen.reason)
    assert seen.message is not None
    assert f"moved to {tmp_path / 'there'}" in seen.message


async def test_a_directory_whose_parents_were_deleted_is_gone(watched: Watched, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "home")

    assert ("gone", "DirectoryDeleted") == ((seen := await watched.next()).kind, seen.reason)


async def test_a_parent_that_was_moved_and_is_reached_by_a_link_is_no_loss(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "home").rename(tmp_path / "there")
    (tmp_path / "home").symlink_to(tmp_path / "there")
    await watched.looked()

    assert [] == watched.told
    assert watched.watcher.watching("w1")


async def test_a_link_in_its_place_is_told_as_replaced_and_is_not_followed(watched: Watched, tmp_path: Path) -> None:
    watched.path.rename(tmp_path / "there")
    watched.path.symlink_to(tmp_path / "there")
    seen = await watched.next()

    assert "replaced" == seen.kind
    assert seen.message is not None
    assert "a symbolic link is in its place" in seen.message


async def test_a_command_that_empties_its_directory_has_not_lost_it(watched: Watched) -> None:
    for number in range(100):
        (watched.path / f"{number}").write_text("x")
    for path in watched.path.iterdir():
        path.unlink()
    await watched.looked()

    assert [] == watched.told


async def test_a_mark_that_was_removed_is_put_back_and_nothing_is_lost(watched: Watched) -> None:
    mark = os.getxattr(watched.path, "user.jackline.workspace")
    os.removexattr(watched.path, "user.jackline.workspace")

    async def back() -> bool:
        with suppress(OSError):
            return mark == os.getxattr(watched.path, "user.jackline.workspace")
        return False

    await eventually(back, what="the mark is back")

    assert [] == watched.told


async def test_a_directory_whose_rights_are_taken_away_is_still_there(watched: Watched) -> None:
    watched.path.chmod(0)
    await watched.looked()
    watched.path.chmod(0o700)

    assert [] == watched.told


# What has everything looked at: somebody asks, or the kernel says that something was mounted or unmounted.
OCCASIONS: dict[str, Callable[[Watched], object]] = {
    "asked": lambda watched: watched.watcher._look("w1"),
    "a mount": lambda watched: watched.watcher._mounts._changed.set(),
}


@pytest.mark.parametrize("ask", OCCASIONS.values(), ids=OCCASIONS)
async def test_a_look_that_cannot_see_is_told_as_unknown_and_the_next_that_can_ends_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Watched], object]
) -> None:
    lstat = os.lstat

    def refused(path: Any, **words: Any) -> os.stat_result:
        if Path(path) == watched.path:
            raise PermissionError(13, "Permission denied")
        return lstat(path, **words)

    monkeypatch.setattr(os, "lstat", refused)
    ask(watched)
    seen = await watched.next()
    monkeypatch.undo()

    assert "watch_dropped" == seen.kind
    assert f"{watched.path}: Permission denied" == seen.message
    assert "present" == (await watched.next()).kind
    assert "synced" == (await watched.next()).kind
    assert watched.watcher.watching("w1")


async def test_what_the_kernel_did_not_tell_makes_it_unknown_until_it_was_looked_at(watched: Watched) -> None:
    flood(watched.path.parent)
    # Nobody has read meanwhile: we have not given the loop a chance to.
    seen = [await watched.next() for _ in range(3)]

    assert ["watch_dropped", "present", "synced"] == [one.kind for one in seen]
    assert "watch_overflowed" in watched.noted


async def test_a_deletion_that_the_kernel_did_not_tell_is_noticed(watched: Watched) -> None:
    flood(watched.path.parent)
    shutil.rmtree(watched.path)
    seen = [await watched.next() for _ in range(2)]

    assert ["watch_dropped", "gone"] == [one.kind for one in seen]


async def test_without_watches_looks_find_what_has_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "UNWATCHED_S", 0.05)
    monkeypatch.setattr("asyncinotify.Inotify.add_watch", no_space)
    watched = await Watched(tmp_path).begin()
    shutil.rmtree(watched.path)
    seen = await watched.next()
    await watched.end()

    assert ("gone", "DirectoryDeleted") == (seen.kind, seen.reason)
    assert ["watch_limited"] == watched.noted


async def test_a_kernel_that_does_not_tell_of_mounts_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("select.epoll", no_space)
    watched = await Watched(tmp_path).begin()
    shutil.rmtree(watched.path)

    assert "gone" == (await watched.next()).kind
    assert -1 == watched.watcher._mounts._descriptor
    await watched.end()


async def test_a_kernel_that_gives_no_inotify_at_all_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "UNWATCHED_S", 0.05)
    monkeypatch.setattr("asyncinotify.Inotify.__init__", no_space)
    watched = await Watched(tmp_path).begin()
    shutil.rmtree(watched.path)

    assert "gone" == (await watched.next()).kind
    await watched.end()


async def test_a_hung_look_is_unknown_and_holds_up_nobody(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_LIMIT_S", 0.05)
    pin = watched.watcher._watched["w1"].pin
    with pin._looking:
        watched.watcher._look("w1")
        seen = await watched.next()

    assert "watch_dropped" == seen.kind
    assert "present" == (await watched.next()).kind


async def test_a_descriptor_is_given_back_when_the_watch_is_over(watched: Watched) -> None:
    descriptor = watched.watcher._watched["w1"].pin.descriptor
    watched.watcher.forget("w1")

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


def flood(place: Path) -> None:
    """More events than the kernel keeps for one reader, in the place that is watched: each renaming is two."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    one, other = place / "one", place / "other"
    one.touch()
    for _ in range(limit // 4 + 1):
        one.rename(other)
        other.rename(one)


async def test_looks_that_hang_keep_no_thread_from_anybody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop's own threads look up names, too: without them no lease could be renewed."""
    answers, hanging = threading.Event(), threading.Semaphore(0)

    def hung(pin: Pin) -> Observation:
        hanging.release()
        answers.wait()
        return Observation("present", str(pin.identity))

    provider, watcher = DirectoryProvider(tmp_path), DirectoryWatcher(lambda *_: None)
    monkeypatch.setattr(Pin, "look", hung)
    names = [f"w{number}" for number in range(LOOKERS)]
    for name in names:
        await provider.place(name, {})
    try:
        for name in names:
            pin = provider.pin(WorkspaceRef(name))
            assert isinstance(pin, Pin)
            watcher.watch(name, pin)
        looks = [watched.looking for watched in watcher._watched.values() if watched.looking is not None]
        await eventually(lambda: _all_hang(hanging), what="every look hangs")
        assert "done" == await asyncio.wait_for(asyncio.to_thread(lambda: "done"), BOUND_S)
    finally:
        answers.set()
    await asyncio.wait(looks)
    for name in names:
        watcher.forget(name)


async def _all_hang(hanging: threading.Semaphore) -> bool:
    return hanging._value == LOOKERS
