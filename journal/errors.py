"""Failures of the journal: each with a stable code, a one-line message that carries the values, and a remedy.

Three kinds, never mixed. A *refusal* says no and changed nothing (``IdempotencyMismatch``). An *unavailability*
says "not now" or "unknown", carries ``retry_after_s`` in seconds, and is safe to retry under the same command id
(``JournalBusy``, ``JournalContended``, ``JournalClosed``, ``OutcomeUnknown``, ``UnreadableStorage``,
``EpochChanged``, ``JournalTaken``). A *fault* is about the files themselves and ends the start of the service, or names
a position in them (``DataDirBusy``, ``JournalDamaged``, ...).

Inside the room two more travel between the writer and ``execute``: ``StaleRead`` and ``CommandRecorded``; both are
resolved there and never reach a caller.
"""

from typing import Any, ClassVar

from domain.refusal import Refusal

BACKUP = "stop, keep a copy, and restore a backup (docs/operations.md, Restore)"
"""What to do about damage."""


class JournalError(Exception):
    """Base of the room's failures: ``code`` never changes, the message is one line with the values and the remedy."""

    code: ClassVar[str] = "journal_error"

    def __init__(self, message: str, remedy: str = "", **fields: Any) -> None:
        self.message = message
        self.remedy = remedy
        self._fields = fields
        super().__init__(f"{message}: {remedy}" if remedy else message)

    def fields(self) -> dict[str, Any]:
        """The values of the case, ready for a problem document."""
        return dict(self._fields)


class Unavailable(JournalError):
    """The journal cannot answer now; the same command may be sent again after ``retry_after_s`` seconds."""

    code = "journal_unavailable"

    def __init__(self, message: str, retry_after_s: float, **fields: Any) -> None:
        super().__init__(message, "", retry_after_s=retry_after_s, **fields)
        self.retry_after_s = retry_after_s


class JournalBusy(Unavailable):
    """The bounded queue before the writer is full; nothing was appended."""

    code = "journal_busy"

    def __init__(self, queued: int) -> None:
        super().__init__(f"{queued} decisions already wait to be appended", 1, queued=queued)


class JournalContended(Unavailable):
    """Every attempt lost a race for the streams that it read; nothing was appended."""

    code = "journal_contended"

    def __init__(self, stream: str, attempts: int) -> None:
        super().__init__(f"{stream} moved under each of {attempts} attempts", 1, stream=stream, attempts=attempts)


class JournalClosed(Unavailable):
    """The journal is shutting down and accepts no more decisions; nothing was appended."""

    code = "journal_closed"

    def __init__(self) -> None:
        super().__init__("the journal is closing and appends nothing more", 1)


class OutcomeUnknown(Unavailable):
    """The append may or may not have happened; only the same command id can tell, once storage answers again."""

    code = "outcome_unknown"

    def __init__(self, cause: str, command_id: str | None) -> None:
        super().__init__(
            f"the outcome of the append is unknown ({cause}); repeat it under the same idempotency key",
            1,
            command_id=command_id,
        )


class IdempotencyMismatch(Refusal):
    """The command id is already recorded for another request."""

    code = "idempotency_mismatch"

    def __init__(self, command_id: str) -> None:
        super().__init__("this idempotency key was already used for another request", command_id=command_id)


class StaleRead(JournalError):
    """A stream that the decision read has moved since."""

    code = "stale_read"

    def __init__(self, stream: str, expected_version: int, current_version: int | None = None) -> None:
        super().__init__(
            f"{stream} was read at version {expected_version}, and has moved",
            stream=stream,
            expected_version=expected_version,
            current_version=current_version,
        )
        self.stream = stream


class CommandRecorded(JournalError):
    """The command id was recorded meanwhile; its answer is remembered."""

    code = "command_recorded"

    def __init__(self, command_id: str) -> None:
        super().__init__(f"command {command_id} is already recorded", command_id=command_id)


class EpochChanged(Unavailable):
    """The journal in storage was restored or promoted since this process opened it; nothing was appended."""

    code = "epoch_changed"

    def __init__(self, held: str, found: str) -> None:
        super().__init__(
            f"the journal is in epoch {found}, this process opened it in {held}; the service must be restarted",
            5,
            held=held,
            found=found,
        )


class JournalTaken(Unavailable):
    """Another process has opened the journal since this one did, and is its writer now; nothing was appended."""

    code = "journal_taken"

    def __init__(self, held: str | None, found: str | None) -> None:
        super().__init__(
            f"the journal's writer is {found} now, and this process is {held}: another service was started on the same "
            "data directory, and this one must be stopped",
            5,
            held=held,
            found=found,
        )


class UnknownTopic(JournalError):
    """A stored name is not in the closed table."""

    code = "unknown_topic"

    def __init__(self, topic: str, stream: str = "", version: int = 0) -> None:
        where = f" ({stream}@{version})" if stream else ""
        super().__init__(
            f"the journal holds a fact named {topic!r}{where}, which this version does not know",
            "use the version of the service that wrote it, or a newer one",
            topic=topic,
            stream=stream,
            version=version,
        )


class UndecodableFact(JournalError):
    """The bytes of a fact do not have the shape that its name promises."""

    code = "undecodable_fact"

    def __init__(self, topic: str, stream: str, version: int, problem: str) -> None:
        super().__init__(
            f"{stream}@{version} ({topic}) cannot be read: {problem}",
            "run `jackline journal verify`, and restore a backup if it confirms damage (docs/operations.md, Restore)",
            topic=topic,
            stream=stream,
            version=version,
        )


class UnreadableStorage(Unavailable):
    """Storage could not give what it holds; nothing was appended."""

    code = "storage_unreadable"

    def __init__(self, problem: str) -> None:
        super().__init__(f"the journal cannot be read from storage ({problem})", 1, problem=problem)


class RegistersAltered(JournalError):
    """What an attempt had saved is not what the fact that ended it says."""

    code = "registers_altered"

    def __init__(self, what: str, run_id: str, fence: int) -> None:
        super().__init__(
            f"the {what} of run {run_id} under fence {fence} is not what this fact says was saved",
            BACKUP,
            run_id=run_id,
            fence=fence,
        )


class ArchiveUnusable(JournalError):
    """Facts of settled runs are in an archive that is missing or altered; nothing else is affected."""

    code = "archive_unusable"

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"the archive {name} cannot be read: {problem}",
            "put the file back into the folder `archive` of the data dir, from a backup (docs/operations.md)",
            name=name,
        )


class DataDirBusy(JournalError):
    """Another process serves this data directory."""

    code = "data_dir_busy"

    def __init__(self, path: str, pid: str) -> None:
        super().__init__(
            f"{path} is in use by process {pid}",
            "stop that process, or give this one another --data-dir",
            path=path,
            pid=pid,
        )


class DataDirUnusable(JournalError):
    """The data directory cannot be created, read or written."""

    code = "data_dir_unusable"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} cannot be used: {problem}", "make it a local, writable directory", path=path)


class NoJournal(JournalError):
    """Nothing was ever served from the directory, so there is nothing to look into and nothing to move."""

    code = "no_journal"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"there is no journal at {path}",
            "give the --data-dir of a service (or JACKLINE_DATA_DIR); `jackline serve` makes a journal",
            path=path,
        )


class StorageFull(JournalError):
    """No space is left where the journal is kept."""

    code = "storage_full"

    def __init__(self, path: str, free_bytes: int) -> None:
        super().__init__(
            f"{path} cannot be written: the disk is full ({free_bytes} bytes free)",
            "free some space, then do it again; nothing acknowledged is lost",
            path=path,
            free_bytes=free_bytes,
        )


class NotAJournal(JournalError):
    """The file is something else: not SQLite, or a database of another program."""

    code = "not_a_journal"

    def __init__(self, path: str, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{path} is not a journal: {problem}", "move it away, or give another --data-dir", path=path)


class JournalDamaged(JournalError):
    """The journal is a journal, and part of it is missing or altered; ``position`` is the first bad one if known."""

    code = "journal_damaged"

    def __init__(self, path: str, problem: str, position: int | None = None) -> None:
        self.problem = problem
        super().__init__(f"{path} is damaged: {problem}", BACKUP, path=path, position=position)


class SchemaTooNew(JournalError):
    """A later version of the service wrote this journal."""

    code = "schema_too_new"

    def __init__(self, path: str, found: int, supported: int) -> None:
        super().__init__(
            f"{path} has schema {found}, this version supports up to {supported}",
            "use the version of the service that wrote it, or a newer one",
            path=path,
            found=found,
            supported=supported,
        )


class NotDurable(JournalError):
    """A pragma that durability rests on did not take effect."""

    code = "not_durable"

    def __init__(self, path: str, pragma: str, wanted: str, found: str) -> None:
        super().__init__(
            f"{path} runs with {pragma}={found}, and {wanted} is required",
            "keep the data directory on a local file system that supports it",
            path=path,
            pragma=pragma,
        )
