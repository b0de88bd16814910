"""The library's ``Application`` over our mapper and recorders, wired through its documented seams.

Its environment is exactly what is given here: nothing is taken from the process's own, so a stray variable cannot point
a journal elsewhere. Snapshots are off (never inside an append), tables are made by ``opening``, stream names are text.

The service appends through ``journal.commit``. ``repository.get(stream, projector_func=...)``, ``notification_log``,
``events`` and even ``save`` work on the same bytes; they are for tools and tests.
"""

from collections.abc import Callable
from pathlib import Path
from typing import cast

from eventsourcing.application import Application
from eventsourcing.persistence import ApplicationRecorder, Mapper
from eventsourcing.utils import Environment, EnvType

from journal.datastore import READONLY
from journal.mapper import Codec, FactMapper
from journal.memory import MemoryStore
from journal.store import SQLiteStore


class JournalApplication(Application[str]):
    """An application whose events are ``Recorded`` facts."""

    name = "Journal"

    def __init__(self, env: EnvType, codec: Codec) -> None:
        self._codec = codec
        super().__init__(env)

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        """The given environment and nothing else."""
        return Environment(name, dict(env or {}))

    def construct_mapper(self) -> Mapper[str]:
        """Our codec under the library's name."""
        return FactMapper(self._codec)


class SQLiteJournal(JournalApplication):
    """The application over an existing journal file; ``release`` is called once the file is closed."""

    def __init__(self, path: Path, codec: Codec, release: Callable[[], None], *, readonly: bool = False) -> None:
        self._release = release
        super().__init__(
            {
                "PERSISTENCE_MODULE": "journal.datastore:JournalFactory",
                "APPLICATION_RECORDER_TOPIC": "journal.store:SQLiteStore",
                "SQLITE_DBNAME": str(path),
                "ORIGINATOR_ID_TYPE": "text",
                "CREATE_TABLE": "n",
                READONLY: "y" if readonly else "n",
            },
            codec,
        )

    def construct_recorder(self) -> ApplicationRecorder:
        """Our recorder, ready."""
        store = cast(SQLiteStore, super().construct_recorder())
        store.bind(self._codec)
        return store

    def close(self) -> None:
        """Close the file and give the data directory back."""
        super().close()
        self.store.archives.close()
        self._release()

    @property
    def store(self) -> SQLiteStore:
        """The recorder under its own type."""
        return cast(SQLiteStore, self.recorder)


class MemoryJournal(JournalApplication):
    """The application over an empty journal in memory."""

    def __init__(self, codec: Codec, journal_id: str, epoch: str) -> None:
        self._ids = (journal_id, epoch)
        super().__init__({"PERSISTENCE_MODULE": "journal.memory:MemoryFactory"}, codec)

    def construct_recorder(self) -> ApplicationRecorder:
        """Our recorder, ready."""
        store = cast(MemoryStore, super().construct_recorder())
        store.bind(self._codec, *self._ids)
        return store

    @property
    def store(self) -> MemoryStore:
        """The recorder under its own type."""
        return cast(MemoryStore, self.recorder)
