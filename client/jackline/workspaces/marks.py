"""The mark by which a directory of ours is known again.

A random text on the directory itself. It is kept in an extended attribute, so that nothing lies in the way of a
command that wants an empty directory (`git clone URL .`), and `git clean` does not remove it; where the file system
has no extended attributes, in a file inside. A copy or a restored backup is another inode, and mostly without the
mark; a directory without it is not ours, and is never deleted.

Everything goes through an open descriptor of the directory: no name is looked up twice.
"""

import contextlib
import errno
import os

ATTRIBUTE = "user.jackline.workspace"
FILE = ".jackline-workspace"
# No such attribute, and no attributes at all: either way there may be a file.
NONE_THERE = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, getattr(errno, "ENODATA", errno.ENOTSUP)})
MARK_BYTES = 128  # more than a mark ever has


def stamp(directory: int, mark: str) -> None:
    """Put the mark on an open directory."""
    if not _stamp_attribute(directory, mark):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(FILE, flags, 0o600, dir_fd=directory), "w", encoding="ascii") as file:
            file.write(mark)


def mark_of(directory: int) -> str | None:
    """The mark of an open directory, or None when it has none. Raises `OSError` when it cannot be read."""
    return _attribute_of(directory) or _file_of(directory)


def _stamp_attribute(directory: int, mark: str) -> bool:
    if not hasattr(os, "setxattr"):
        return False
    with contextlib.suppress(OSError):
        os.setxattr(directory, ATTRIBUTE, mark.encode("ascii"))
        return True
    return False


def _attribute_of(directory: int) -> str | None:
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(directory, ATTRIBUTE)[:MARK_BYTES].decode("ascii", "replace")
    except OSError as error:
        if error.errno not in NONE_THERE:
            raise  # it may well be there: what cannot be read is no missing mark
        return None


def _file_of(directory: int) -> str | None:
    try:
        file = os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        return os.read(file, MARK_BYTES).decode("ascii", "replace") or None
    finally:
        os.close(file)
