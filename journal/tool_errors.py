"""What the journal's tools refuse: each one line with a stable code, the values and the remedy, and nothing changed.

A target that was being written is taken away again; what was there before is as it was.
"""

import errno
from pathlib import Path

from journal.errors import JournalError
from journal.lock import free_bytes

OPERATIONS = "docs/operations.md"


class TargetExists(JournalError):
    """There is a file where one was to be written."""

    code = "target_exists"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is there already", "give another name, or move it away", path=str(path))


class TargetBusy(JournalError):
    """Another process is writing the same file."""

    code = "target_busy"

    def __init__(self, path: Path) -> None:
        super().__init__(f"another process is writing {path}", "wait for it, or give another name", path=str(path))


class TargetUnusable(JournalError):
    """The file cannot be written."""

    code = "target_unusable"

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} cannot be written: {problem}", "give a path in a directory that can be written", path=str(path)
        )


class TargetFull(JournalError):
    """No space was left for the file; what was written of it was taken away."""

    code = "target_full"

    def __init__(self, path: Path) -> None:
        free = free_bytes(path)
        super().__init__(
            f"{path} could not be written whole: the disk is full, or files may not be so large ({free} bytes free)",
            "free some space or give a path on another disk; nothing was kept, and the journal is as it was",
            path=str(path),
            free_bytes=free,
        )


class SourceUnreadable(JournalError):
    """The file to be read is not there or cannot be read."""

    code = "source_unreadable"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} cannot be read: {problem}", "give the path of a file that is there", path=path)


class NotAnExport(JournalError):
    """The file was not written by ``jackline journal export``."""

    code = "not_an_export"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path} is not an export of a journal: {problem}",
            "give a file that `jackline journal export` wrote as JSON Lines",
            path=path,
        )


class ExportPartial(JournalError):
    """The export holds a part of a journal, and a journal begins at its first fact."""

    code = "export_partial"

    def __init__(self, path: str, after: int, upto: int) -> None:
        super().__init__(
            f"{path} holds the facts {after + 1} to {upto} of a journal and not the whole of it",
            "export without --after and --upto",
            path=path,
            after=after,
            upto=upto,
        )


class ExportDamaged(JournalError):
    """The export was cut off or altered; nothing of it was kept."""

    code = "export_damaged"

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(
            f"{path} is damaged at line {line}: {problem}",
            "nothing was imported; export again",
            path=path,
            line=line,
        )
        self.line = line


class BackupDamaged(JournalError):
    """The backup is not what was written; nothing of it was kept."""

    code = "backup_damaged"

    def __init__(self, path: Path, problem: str, position: int | None) -> None:
        super().__init__(
            f"the backup {path} is damaged: {problem}",
            "nothing was restored; use another backup",
            path=str(path),
            position=position,
        )


class NotABackup(JournalError):
    """The file was not written by ``jackline journal backup``."""

    code = "not_a_backup"

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is not a backup of a journal: {problem}",
            "give a file that `jackline journal backup` wrote",
            path=str(path),
        )


class JournalNotEmpty(JournalError):
    """A journal with facts is where one was to be put."""

    code = "journal_not_empty"

    def __init__(self, path: Path, facts: int) -> None:
        super().__init__(
            f"{path} is a journal with {facts} facts, and is not replaced",
            "move it away, or give another --data-dir",
            path=str(path),
            facts=facts,
        )


class PositionBeyond(JournalError):
    """The journal does not reach so far."""

    code = "position_beyond"

    def __init__(self, position: int, last: int) -> None:
        super().__init__(
            f"position {position} is beyond the journal, which ends at {last}",
            f"give a position up to {last}; after a restore, begin anew",
            position=position,
            journal_position=last,
        )


class ParquetMissing(JournalError):
    """What writes Parquet is not installed."""

    code = "parquet_missing"

    def __init__(self) -> None:
        super().__init__(
            "Parquet needs the package pyarrow, which is not installed",
            "`pip install 'jackline-server[parquet]'`, or export JSON Lines",
        )


def unwritable(path: Path, error: OSError) -> JournalError:
    """The error for what the operating system said about a target."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return TargetFull(path)
    return TargetUnusable(path, error.strerror or str(error))
