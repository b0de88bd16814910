"""A process that appends to a journal and hands over what went to the disk while it did.

    python -m tests.faults.recorded DIR STEPS COMMANDS SYNCHRONOUS

The journal of DIR exists. Clients append side by side under command ids, with a register write each, through the real
journal on its real recorder; the log is checkpointed every few pages, so that the file itself is often written too.
Everything is pickled to STEPS: operations and acknowledgements in their order.
"""

import asyncio
import pickle
import sys
from pathlib import Path

from domain.values import Json
from journal.opening import open_journal
from journal.registers import PartialWrite
from journal.store import SQLiteStore
from tests.faults.disk import Recorder, install
from tests.journal.accounts import CODEC, FOLDS, HandClock, command, deposit, execute, minting

CLIENTS = 5
CHECKPOINT_PAGES = 40


async def main(place: Path, recorder: Recorder, commands: int, synchronous: str) -> None:
    """Append this many commands; what the start itself writes is recorded as well."""
    journal = await open_journal(place, HandClock(), mint=minting(), codec=CODEC, folds=FOLDS)
    store = journal.store
    assert isinstance(store, SQLiteStore)
    with store.datastore.get_connection(commit=True) as connection:
        for pragma in (f"wal_autocheckpoint={CHECKPOINT_PAGES}", f"synchronous={synchronous}"):
            connection.cursor().execute(f"PRAGMA {pragma}")

    async def client(number: int) -> None:
        stream = f"account-{number}"
        for turn in range(commands // CLIENTS):
            key = f"{stream}-{turn}"
            write = PartialWrite(f"run-{number}", turn + 1, Json(b'"%s"' % key.encode()))
            done = await execute(journal, deposit(journal, stream, 1, [write]), locks=[stream], context=command(key))
            recorder.told(f"{key} {done.position}")

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    # The process ends here without closing anything, as a crash would.


if __name__ == "__main__":
    keeping = Recorder()
    install(keeping)
    asyncio.run(main(Path(sys.argv[1]), keeping, int(sys.argv[3]), sys.argv[4]))
    Path(sys.argv[2]).write_bytes(pickle.dumps(keeping.steps))
