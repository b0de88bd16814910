"""Files for their owner alone: made so, and made so again when they are opened.

What a service keeps says what its callers sent: payloads, output, errors. The data directory keeps others out only
where the service made it; one that was there before has the mode that somebody gave it. So each file has a mode of its
own, 0600, and what SQLite puts beside a database has the mode of that database.
"""

import contextlib
import os
import stat
from pathlib import Path

OWNER_ONLY = 0o600


def made_private(path: Path) -> None:
    """Make the file, empty, if there is none; nobody but its owner may read or write it from here on.

    Raises:
        OSError: it cannot be made. That the mode cannot be changed, because the file is somebody else's, is let pass.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
    except FileExistsError:
        # By name: to close a file that SQLite has open in this process would take SQLite's locks from it.
        if stat.S_IMODE(path.stat().st_mode) & ~OWNER_ONLY:
            with contextlib.suppress(PermissionError):
                path.chmod(OWNER_ONLY)


def keep_private(*paths: Path) -> None:
    """The same of files that are there, and nothing of those that are not."""
    for path in paths:
        if path.is_file():
            made_private(path)
