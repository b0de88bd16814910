"""One process serves a data directory: an exclusive kernel lock on ``journal.lock`` inside it.

The kernel gives the lock back when its holder ends, however it ends, so nothing is ever taken over by guess. The
holder's pid is written into the file for the message to the second one; it decides nothing.

Whoever took the lock for something that was then refused takes away what the lock itself had made, while it is held; so
a lock counts only if its file is still the one under the name, and is taken again if it is not.
"""

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from journal.errors import DataDirBusy, DataDirUnusable, StorageFull

LOCK_NAME = "journal.lock"

REMOTE_FILESYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "fuse.sshfs", "fuse.glusterfs"})
"""File systems on which kernel locks or shared memory do not hold between machines."""


class DirLock:
    """The exclusive lock on a data directory, from construction to ``release``.

    Raises:
        DataDirBusy: another process holds it, with its pid.
        DataDirUnusable: the directory cannot be made, read or written, or is on another machine.
        StorageFull: there is no space left for it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / LOCK_NAME
        self._made: list[Path] = []
        self._file = -1
        try:
            self._make(data_dir)
            _refuse_remote(data_dir)
            while not self._is_in_place():
                self.release()
                self._file = self._opened()
                self._take(data_dir)
        except OSError as error:
            self.release()
            raise unusable(data_dir, error) from error
        with contextlib.suppress(OSError):  # the pid only serves a message; a full disk must not stop a reader
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def _make(self, data_dir: Path) -> None:
        """Make the directory, with those above it that are missing."""
        missing = [one for one in (data_dir, *data_dir.parents) if not one.exists()]
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._made = missing

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            opened = os.open(self._path, flags | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(self._path, flags, 0o600)
        self._made = [self._path, *self._made]
        return opened

    def _take(self, data_dir: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
            self.release()
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise DataDirBusy(str(data_dir), pid) from None
            raise

    def _is_in_place(self) -> bool:
        """Whether the file that is locked is the one under the name: its holder before may have taken it away."""
        if self._file < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            return False

    def undo(self) -> None:
        """Take away the file and the directories that this lock made, as far as nothing else is in them."""
        for one in self._made:
            with contextlib.suppress(OSError):
                one.unlink() if one == self._path else one.rmdir()
        self._made = []

    def release(self) -> None:
        """Give the directory back; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def unusable(path: Path, error: OSError) -> DataDirUnusable | StorageFull:
    """The journal's own error for what the operating system said about a path."""
    if error.errno == errno.ENOSPC:
        return StorageFull(str(path), free_bytes(path))
    return DataDirUnusable(str(path), error.strerror or str(error))


def free_bytes(path: Path) -> int:
    """Bytes that may still be written where a path is, or would be."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            stats = os.statvfs(place)
            return stats.f_bavail * stats.f_frsize
    return 0


def _refuse_remote(data_dir: Path) -> None:
    kind = filesystem_of(data_dir.resolve())
    if kind in REMOTE_FILESYSTEMS:
        raise DataDirUnusable(str(data_dir), f"it is on a network file system ({kind}), where locks do not hold")


def filesystem_of(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The type of the file system that holds a resolved path; None where the kernel does not tell."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    best: tuple[int, str] | None = None
    for line in lines:
        before, _, after = line.partition(" - ")
        mount_point = Path(before.split()[4].replace("\\040", " "))
        if (path == mount_point or mount_point in path.parents) and (best is None or len(mount_point.parts) >= best[0]):
            best = (len(mount_point.parts), after.split()[0])
    return None if best is None else best[1]
