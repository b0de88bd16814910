"""Removing a directory of ours with all that is in it, and nothing else.

No symbolic link is followed, at whatever moment it appears. Directories that the command made unreadable are opened
up. Something that is mounted inside belongs to somebody else: then nothing is removed. The directory is first moved
aside under a name of ours, so that a removal that was cut short is known for what it is and finished later.
"""

import contextlib
import os
import shutil
import stat
import sys
from pathlib import Path

from jackline.workspaces.contract import NotOurs

GOING = ".going."
ROUNDS = 64  # each opens up one level of unreadable directories


def remove(directory: Path) -> None:
    """Remove the directory. Raises `NotOurs` when something is mounted inside, `OSError` when it cannot be done."""
    mounted = mounts_below(directory)
    if mounted:
        msg = f"{directory} is left alone: something is mounted at {mounted[0]}"
        raise NotOurs(msg)
    aside = directory.with_name(f"{GOING}{directory.name}")
    if directory.name.startswith(GOING):
        aside = directory
    else:
        directory.rename(aside)
    for _ in range(ROUNDS):
        if (closed := _removed_as_far_as_possible(aside)) is None:
            return
        for path in closed:
            open_up(aside, path)
    shutil.rmtree(aside)


def finish(root: Path) -> int:
    """Finish removals that were cut short; how many there were."""
    unfinished = [path for path in root.iterdir() if path.name.startswith(GOING) and not path.is_symlink()]
    for path in unfinished:
        with contextlib.suppress(OSError, NotOurs):
            remove(path)
    return len(unfinished)


def mounts_below(directory: Path) -> list[str]:
    """Mount points at or inside the directory."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [str(directory)] if directory.is_mount() else []
    points = [_unescaped(line.split(" ")[4]) for line in lines]
    inside = f"{directory}/"
    return [point for point in points if point == str(directory) or point.startswith(inside)]


def _unescaped(text: str) -> str:
    """A path as mountinfo writes it: blanks and the like in octal."""
    for octal, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(octal, character)
    return text


def _removed_as_far_as_possible(directory: Path) -> list[str] | None:
    """None when nothing is left; else the directories that could not be entered or changed."""
    closed: set[str] = set()

    def remember(_: object, path: str | Path, __: object) -> None:
        closed.update((str(path), str(Path(path).parent)))

    shutil.rmtree(directory, onerror=remember)
    within = [path for path in sorted(closed) if path == str(directory) or path.startswith(f"{directory}/")]
    return within if os.path.lexists(directory) else None


def open_up(root: Path, path: str) -> None:
    """Give ourselves every right on a directory at or below `root`, and never on what a link leads to."""
    flags = (os.O_PATH if sys.platform == "linux" else os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        descriptor = os.open(root, flags)
        opened.callback(os.close, descriptor)
        for name in Path(path).relative_to(root).parts:
            _grant(descriptor)
            descriptor = os.open(name, flags, dir_fd=descriptor)
            opened.callback(os.close, descriptor)
        _grant(descriptor)


def _grant(descriptor: int) -> None:
    os.chmod(f"/proc/self/fd/{descriptor}" if sys.platform == "linux" else descriptor, stat.S_IRWXU)
