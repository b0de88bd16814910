"""A process that appends until it is killed, and says on its output which balance of which account was acknowledged.

Run as ``python -m tests.journal.appending DIR``: eight clients, one account each, one deposit after another.
"""

import asyncio
import sys
from pathlib import Path

from journal.opening import open_journal
from tests.journal.accounts import CODEC, FOLDS, HandClock, command, deposit, execute, minting

CLIENTS = 8


async def main(place: Path) -> None:
    """Append until the end of the process."""
    journal = await open_journal(place, HandClock(), mint=minting(), codec=CODEC, folds=FOLDS)

    async def client(number: int) -> None:
        stream = f"account-{number}"
        while True:
            key = f"{stream}-{journal.streams.load(stream).version}"
            done = await execute(journal, deposit(journal, stream), locks=[stream], context=command(key))
            sys.stdout.write(f"{stream} {done.answer} {done.position}\n")
            sys.stdout.flush()

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
