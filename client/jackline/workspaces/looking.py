"""One look at a directory: is what stands in its place still the one that was attached to?

A *pin* is an open descriptor of the directory. As long as it is held the inode cannot be given to another directory,
and the kernel can be asked where the directory is now and whether it was deleted, whatever has become of its name. So
every loss that a look reports rests on something that was seen:

    nothing in its place, and the kernel says deleted      gone, DirectoryDeleted
    nothing in its place, found alive elsewhere            gone, DirectoryDeleted, "moved to ..."
    something else in its place, and it was deleted/moved  replaced, DirectoryReplaced
    its file system is not mounted any more, or another    watch_dropped: nobody can see it
      is mounted over it
    permission lost, an input/output error                 watch_dropped

The device counts within one boot: device numbers are dealt anew when a file system is mounted, so after a reboot the
inode and the mark decide. The mark is what tells a directory from one that got the same inode after it.
"""

import contextlib
import fcntl
import os
import re
import stat
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from jackline.workspaces import marks
from jackline.workspaces.contract import Observation

PREFIX = "dir"
DELETED = " (deleted)"
_NUMBER = re.compile(r"[0-9]{1,20}")
PATH_MAX = 1024  # bytes of a path where F_GETPATH writes one
OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    """One directory for its whole life, and no other."""

    device: int
    inode: int
    mark: str

    def __str__(self) -> str:
        return f"{PREFIX}:{self.device}:{self.inode}:{self.mark}"

    @classmethod
    def of(cls, text: str) -> "DirectoryIdentity | None":
        """The identity that a text names, or None when it names none."""
        prefix, _, rest = text.partition(":")
        device, _, rest = rest.partition(":")
        inode, _, mark = rest.partition(":")
        numbers = all(_NUMBER.fullmatch(part) for part in (device, inode))
        return cls(int(device), int(inode), mark) if prefix == PREFIX and numbers and mark else None


class Pin:
    """An open directory with its identity."""

    def __init__(self, path: Path, descriptor: int, identity: DirectoryIdentity) -> None:
        self.path = path
        self.descriptor = descriptor
        self.identity = identity
        seen = os.fstat(descriptor)
        self._node = (seen.st_dev, seen.st_ino)
        self._looking = threading.Lock()
        self._released = False

    @property
    def busy(self) -> bool:
        """Whether a look is under way."""
        return self._looking.locked()

    def release(self) -> None:
        """Let go of the directory, after the look that is under way; looking at it is over."""
        self._released = True
        if self._looking.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._looking.release()

    def look(self) -> Observation:
        """What is seen of the directory now."""
        with self._looking:
            if self._released:
                self._close()
                return self._unseen("nobody looks at it any more")
            seen = self._look()
        if self._released:
            self.release()
        return seen

    def _close(self) -> None:
        # The number may be given to another file at once: nothing may look at it any more.
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _look(self) -> Observation:
        try:
            seen = os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return self._elsewhere(None)
        except OSError as error:
            return self._unseen(f"{self.path}: {error.strerror}")
        if (seen.st_dev, seen.st_ino) == self._node:
            return self._in_place()
        return self._elsewhere(seen)

    def _in_place(self) -> Observation:
        # The descriptor proves the identity; the mark is for whoever comes after us, so it is put back.
        with contextlib.suppress(OSError):
            if marks.mark_of(self.descriptor) != self.identity.mark:
                marks.stamp(self.descriptor, self.identity.mark)
        return Observation("present", str(self.identity))

    def _elsewhere(self, other: os.stat_result | None) -> Observation:
        """The name does not lead to the directory any more: what has become of it?"""
        if not is_mounted(self.descriptor):
            return self._unseen(f"{self.path}: its file system is not mounted any more")
        where = where_is(self.descriptor)
        found = where is not None and _node_of(where) == self._node
        if self._is_deleted(where, found=found):
            return self._lost("it was deleted", other)
        if where is None or not where.startswith("/"):
            return self._unseen(f"{self.path}: it is out of sight, and was not deleted")
        if where != str(self.path):
            return self._lost(f"it was moved to {where}", other)
        # It came back between the two looks, or else something is mounted over it.
        return self._in_place() if found else self._unseen(f"{self.path}: another file system is mounted over it")

    def _is_deleted(self, where: str | None, *, found: bool) -> bool:
        try:
            links = os.fstat(self.descriptor).st_nlink
        except OSError:
            return False
        # Some file systems count no links of directories: there the kernel's word is all there is.
        return links == 0 or (where is not None and where.endswith(DELETED) and not found)

    def _lost(self, what: str, other: os.stat_result | None) -> Observation:
        if other is None:
            return gone(self.path, self.identity, what)
        return replaced(self.path, f"{what}, and {_kind(other)} is in its place")

    def _unseen(self, message: str) -> Observation:
        return Observation("watch_dropped", str(self.identity), message=message)


def take(path: Path, identity: DirectoryIdentity, *, same_boot: bool) -> Pin | Observation:
    """The directory pinned, if it is still the one with that identity; else what is seen in its place."""
    try:
        descriptor = os.open(path, OPEN)
    except FileNotFoundError:
        return _absent(path, identity)
    except OSError as error:
        return _unopened(path, identity, error)
    seen = os.fstat(descriptor)
    try:
        mark = marks.mark_of(descriptor)
    except OSError as error:
        os.close(descriptor)
        return Observation("watch_dropped", str(identity), message=f"{path}: {error.strerror}")
    same_node = seen.st_ino == identity.inode and (seen.st_dev == identity.device or not same_boot)
    if same_node and mark == identity.mark:
        return Pin(path, descriptor, identity)
    os.close(descriptor)
    what = "it does not carry its mark" if same_node else f"another directory is in its place, {_kind(seen)}"
    return replaced(path, what)


def gone(path: Path, identity: DirectoryIdentity, what: str) -> Observation:
    """The directory is not in its place any more."""
    return Observation("gone", str(identity), reason="DirectoryDeleted", message=f"{path}: {what}")


def replaced(path: Path, what: str) -> Observation:
    """Something else is in the directory's place."""
    return Observation("replaced", reason="DirectoryReplaced", message=f"{path}: {what}")


def where_is(descriptor: int) -> str | None:
    """Where the kernel says that an open directory is; None where it does not say."""
    with contextlib.suppress(OSError):
        if sys.platform == "linux":
            return os.readlink(f"/proc/self/fd/{descriptor}")
        if sys.platform == "darwin":
            return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(PATH_MAX)).partition(b"\0")[0])
    return None


def is_mounted(descriptor: int) -> bool:
    """Whether the mount through which it was opened is seen to be there; True where no system tells."""
    try:
        said = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return True
    except OSError:
        return False  # it cannot be seen now, so nothing follows from what else is seen
    number = next((line.split()[1] for line in said.splitlines() if line.startswith("mnt_id:")), None)
    return number is None or any(line.split(" ", 1)[0] == number for line in mounts.splitlines())


def _absent(path: Path, identity: DirectoryIdentity) -> Observation:
    """Nothing is there: evidence only if the place itself can be seen."""
    try:
        os.lstat(path.parent)
    except OSError as error:
        return Observation("watch_dropped", str(identity), message=f"{path.parent}: {error.strerror}")
    return gone(path, identity, "it is not there any more")


def _unopened(path: Path, identity: DirectoryIdentity, error: OSError) -> Observation:
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR((seen := os.lstat(path)).st_mode):
            return replaced(path, f"{_kind(seen)} is in its place")
    return Observation("watch_dropped", str(identity), message=f"{path}: {error.strerror}")


def _node_of(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        seen = os.lstat(path)
        return (seen.st_dev, seen.st_ino)
    return None


def _kind(seen: os.stat_result) -> str:
    """What something is, in words."""
    if stat.S_ISLNK(seen.st_mode):
        return "a symbolic link"
    if stat.S_ISDIR(seen.st_mode):
        return f"a directory with inode {seen.st_ino}"
    return "something that is not a directory"
