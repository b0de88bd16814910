"""Putting a journal into a data directory that has none: whole, under the directory's lock, or not at all.

An import and a restore fill ``journal.sqlite3.new`` and move it into place. A journal with facts is never replaced; an
empty one, as a first start leaves it, is. A directory in which a service runs is refused. What is refused leaves
nothing behind, not even the directory, if it was made for this.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from journal.errors import JournalDamaged
from journal.lock import DirLock
from journal.opening import JOURNAL_NAME, open_readonly, said_plainly
from journal.owned import made_private
from journal.reached import REACHED_NAME
from journal.targets import logs_of, remove_with_log, sync
from journal.tool_errors import JournalNotEmpty


@contextlib.contextmanager
def into_place(data_dir: Path) -> Iterator[Path]:
    """The path at which to make a journal; at the end of the block it is the directory's.

    Raises:
        DataDirBusy, DataDirUnusable, StorageFull: about the directory.
        JournalNotEmpty: it has a journal with facts.
        JournalDamaged, NotAJournal: something is in the journal's place that is none.
    """
    lock = DirLock(data_dir)
    path = data_dir / JOURNAL_NAME
    new = path.with_name(path.name + ".new")
    try:
        with said_plainly(path):
            require_empty(path)
            remove_with_log(new)
            made_private(new)
            try:
                yield new
                sync(new)
                for log in (*logs_of(path), *logs_of(new)):
                    log.unlink(missing_ok=True)
                new.replace(path)
                path.with_name(REACHED_NAME).unlink(missing_ok=True)  # it tells of the journal that was here
                sync(data_dir)
            finally:
                remove_with_log(new)
    except BaseException:
        lock.undo()
        raise
    finally:
        lock.release()


def require_empty(path: Path) -> None:
    """Nothing, when there is no journal, or one without facts.

    Raises:
        JournalNotEmpty: it has facts.
        JournalDamaged: there is a log without its journal, which holds facts.
        NotAJournal: it is something else.
    """
    if not path.exists():
        log = logs_of(path)[0]
        if log.exists() and log.stat().st_size:
            raise JournalDamaged(str(path), f"it is missing, and {log.name} beside it holds facts")
        return
    application = open_readonly(path.parent)
    try:
        facts = application.store.last_stored()
    finally:
        application.close()
    if facts:
        raise JournalNotEmpty(path, facts)
