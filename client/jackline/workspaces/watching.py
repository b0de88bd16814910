"""Noticing that a directory has ended, within moments and without asking again and again.

The kernel says when to look (inotify), and a look says what is there (`looking`): an event is never evidence by
itself. Watched are the place that holds the directories, each directory itself, and every directory above, because
whoever moves one of those moves the workspace. None of that moves when a command works *inside* its directory, so a
busy run costs nothing. That something was mounted or unmounted is told by the kernel, and has everything looked at.

A loss is told once, after two looks `CONFIRM_S` apart have seen it, so that what is moved away and back at once is no
loss. When nothing can be seen, that is told (`watch_dropped`), and as soon as the directory is seen again, `present`
with `synced`. Events that the kernel had to drop mean that everything is looked at again. Where watches cannot be had
(no inotify, or its limit is reached) looks come every second; otherwise every half minute, as a safety net.

Units: seconds. A look that takes longer than `LOOK_LIMIT_S` (a hung file server) sees nothing. Bounds: one look at a
time per directory.
"""

import asyncio
import contextlib
import errno
import os
import select
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jackline.workspaces.contract import Observation
from jackline.workspaces.looking import Pin

CONFIRM_S = 0.1
RESCAN_S = 30.0
UNWATCHED_S = 1.0
LOOKERS = 32  # threads that look; those that hang take nothing from what else waits for a thread: names, to begin with
LOOK_LIMIT_S = 5.0
LIMITS = frozenset({errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM})

Tell = Callable[[str, Sequence[Observation]], None]
Note = Callable[..., None]


@dataclass(slots=True)
class _Watched:
    """One directory under watch."""

    pin: Pin
    blind: bool = False
    suspected: bool = False
    noticed: bool = False
    looking: asyncio.Task[None] | None = None
    again: bool = False


class Watches:
    """The kernel's side: which directories have to be looked at when something happens to a watched one."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._inotify: Any = None
        self._by_number: dict[int, set[str]] = {}
        self._limited = False

    def open(self) -> bool:
        """Whether the kernel gives us watches at all."""
        if sys.platform != "linux":
            return False
        from asyncinotify import Inotify

        try:
            self._inotify = Inotify()
        except OSError as error:
            self._limit(error)
            return False
        return True

    def close(self) -> None:
        """Give everything back."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None
        self._by_number.clear()

    def add(self, workspace_id: str, path: Path) -> bool:
        """Watch a directory, the place that holds it and everything above; False when a watch cannot be had."""
        if self._inotify is None:
            return False
        from asyncinotify import Mask

        # Mask.MASK_ADD: one directory may be the place of some and above others.
        ends = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ATTRIB | Mask.DONT_FOLLOW | Mask.ONLYDIR | Mask.MASK_ADD
        entries = Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO
        noticed = self._add(workspace_id, path.parent, ends | entries) and self._add(workspace_id, path, ends)
        for above in path.parent.parents:
            # One that we may not read cannot be watched; whoever can move it could do worse.
            self._add(workspace_id, above, ends)
        return noticed

    def forget(self, workspace_id: str) -> None:
        """Watch a directory no more."""
        for number, names in list(self._by_number.items()):
            names.discard(workspace_id)
            if not names:
                del self._by_number[number]
                watch = next((one for one in self._inotify.watches if one.wd == number), None)
                with contextlib.suppress(OSError):
                    if watch is not None:
                        self._inotify.rm_watch(watch)

    async def next(self) -> tuple[set[str], bool]:
        """The directories to look at next, and whether the kernel has dropped events."""
        from asyncinotify import Mask

        notice = await self._inotify.get()
        if Mask.Q_OVERFLOW in notice.mask:
            return set().union(*self._by_number.values()), True
        number = notice.watch.wd if notice.watch is not None else -1
        names = set(self._by_number.get(number, ()))
        if Mask.IGNORED in notice.mask:
            self._by_number.pop(number, None)
        if notice.name is not None:
            names &= {str(notice.name)}
        return names, False

    def _add(self, workspace_id: str, path: Path, mask: Any) -> bool:
        try:
            watch = self._inotify.add_watch(path, mask)
        except OSError as error:
            if error.errno in LIMITS:
                self._limit(error)
            return False
        self._by_number.setdefault(watch.wd, set()).add(workspace_id)
        return True

    def _limit(self, error: OSError) -> None:
        """Say once that the kernel gives us no more watches."""
        if not self._limited:
            self._limited = True
            self._note("watch_limited", error=str(error))


class Mounts:
    """The kernel's word that something was mounted or unmounted, which no watch of a directory is told of."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._epoll: Any = None
        self._descriptor = -1

    def open(self) -> bool:
        """Whether the kernel tells."""
        if sys.platform != "linux":
            return False
        try:
            self._descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
            self._epoll = select.epoll()
            self._epoll.register(self._descriptor, select.EPOLLPRI)
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._changed.set)
        except OSError:
            self.close()
            return False
        return True

    def close(self) -> None:
        """Give everything back."""
        if self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def next(self) -> None:
        """Wait for the next change; several at once are one."""
        await self._changed.wait()
        self._epoll.poll(0)
        self._changed.clear()


class DirectoryWatcher:
    """Watches directories and tells what becomes of them: `tell(workspace_id, observations)`."""

    def __init__(self, tell: Tell, note: Note = lambda *_, **__: None, *, rescan_s: float = RESCAN_S) -> None:
        self._tell = tell
        self._note = note
        self._rescan_s = rescan_s
        self._watched: dict[str, _Watched] = {}
        self._watches = Watches(note)
        self._mounts = Mounts()
        self._changed = asyncio.Event()
        self._lookers = ThreadPoolExecutor(LOOKERS, thread_name_prefix="jackline-look")

    def watch(self, workspace_id: str, pin: Pin) -> None:
        """Begin to watch a directory; the pin is released when that is over."""
        self.forget(workspace_id)
        self._watched[workspace_id] = _Watched(pin, noticed=self._watches.add(workspace_id, pin.path))
        self._look(workspace_id)  # what happened between the pin and the watch
        self._changed.set()

    def forget(self, workspace_id: str) -> None:
        """Watch a directory no more."""
        watched = self._watched.pop(workspace_id, None)
        if watched is None:
            return
        if watched.looking is not None:
            watched.looking.cancel()
        watched.pin.release()
        self._watches.forget(workspace_id)

    def watching(self, workspace_id: str) -> bool:
        """Whether a directory is being watched."""
        return workspace_id in self._watched

    async def looked(self, workspace_id: str) -> bool:
        """Look now, and tell what has become of it; whether the directory was seen in its place."""
        watched = self._watched.get(workspace_id)
        if watched is None:
            return False
        self._look(workspace_id)
        if watched.looking is not None:
            await asyncio.wait([watched.looking])
        return workspace_id in self._watched and not watched.blind

    async def run(self) -> None:
        """Watch until cancelled."""
        seeing, told_of_mounts = self._watches.open(), self._mounts.open()
        for workspace_id, watched in self._watched.items():
            watched.noticed = self._watches.add(workspace_id, watched.pin.path)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._rescan())
                if seeing:
                    both.create_task(self._listen())
                if told_of_mounts:
                    both.create_task(self._listen_for_mounts())
        finally:
            for workspace_id in list(self._watched):
                self.forget(workspace_id)
            self._watches.close()
            self._mounts.close()

    async def _listen_for_mounts(self) -> None:
        while True:
            await self._mounts.next()
            for workspace_id in self._watched:
                self._look(workspace_id)

    async def _listen(self) -> None:
        while True:
            names, dropped = await self._watches.next()
            if dropped:
                self._note("watch_overflowed", directories=len(self._watched))
                self._blind_all()
            for workspace_id in names & self._watched.keys():
                self._look(workspace_id)

    async def _rescan(self) -> None:
        while True:
            self._changed.clear()
            sharp = all(watched.noticed and not watched.blind for watched in self._watched.values())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rescan_s if sharp else min(UNWATCHED_S, self._rescan_s)):
                    await self._changed.wait()
                    continue
            for workspace_id, watched in self._watched.items():
                if not watched.noticed or watched.blind:
                    watched.noticed = self._watches.add(workspace_id, watched.pin.path)
                self._look(workspace_id)

    def _blind_all(self) -> None:
        """Events are missing: what was known is unknown until each directory has been looked at."""
        for workspace_id, watched in self._watched.items():
            self._drop(workspace_id, watched, "the kernel dropped events")
            self._look(workspace_id)

    def _drop(self, workspace_id: str, watched: _Watched, message: str | None) -> None:
        if not watched.blind:
            watched.blind = True
            self._changed.set()
            self._tell(workspace_id, [Observation("watch_dropped", str(watched.pin.identity), message=message)])

    def _look(self, workspace_id: str) -> None:
        """Look soon; a look under way is followed by another."""
        watched = self._watched[workspace_id]
        if watched.looking is None or watched.looking.done():
            watched.looking = asyncio.get_running_loop().create_task(self._look_until_clear(workspace_id, watched))
        else:
            watched.again = True

    async def _look_until_clear(self, workspace_id: str, watched: _Watched) -> None:
        while True:
            watched.again = False
            seen = await _seen(watched.pin, self._lookers)
            if seen.is_loss and watched.suspected:
                self._lose(workspace_id, watched, seen)
                return
            watched.suspected = seen.is_loss
            if seen.is_loss:
                await asyncio.sleep(CONFIRM_S)
                continue
            self._say(workspace_id, watched, seen)
            if not watched.again:
                return

    def _say(self, workspace_id: str, watched: _Watched, seen: Observation) -> None:
        if seen.kind == "watch_dropped":
            self._drop(workspace_id, watched, seen.message)
        elif watched.blind:
            watched.blind = False
            self._tell(workspace_id, [seen, Observation("synced")])

    def _lose(self, workspace_id: str, watched: _Watched, seen: Observation) -> None:
        watched.looking = None
        self.forget(workspace_id)
        self._tell(workspace_id, [seen])


async def _seen(pin: Pin, lookers: ThreadPoolExecutor) -> Observation:
    """One look, on a thread that does nothing else: a hung file server must not hold up anything but looks."""
    if pin.busy:
        return Observation("watch_dropped", str(pin.identity), message=f"{pin.path}: the last look has no answer yet")
    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            return await asyncio.get_running_loop().run_in_executor(lookers, pin.look)
    except TimeoutError:
        message = f"{pin.path}: a look took longer than {LOOK_LIMIT_S:g} s"
        return Observation("watch_dropped", str(pin.identity), message=message)
