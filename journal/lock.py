"""One process serves a data directory: an exclusive kernel lock on ``journal.lock`` inside it.

The kernel gives the lock back when its holder ends, however it ends, so nothing is ever taken over by guess. The
holder's pid is written into the file for the message to the second one; it decides nothing.
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
        path = data_dir / LOCK_NAME
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_remote(data_dir)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(data_dir, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise DataDirBusy(str(data_dir), pid) from None
            raise unusable(data_dir, error) from error
        with contextlib.suppress(OSError):  # the pid only serves a message; a full disk must not stop a reader
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

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
