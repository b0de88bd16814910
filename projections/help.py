"""The helper's own side: ``python -m projections.help DATA_DIR NAME...``, which only a rebuild starts.

It folds its half of the facts into the named read models beside the live ones, as far as the journal goes, and ends. It
says on its standard output how far it is, a position a line, and ends at once when its standard input does.
"""

import os
import sys
import threading
from pathlib import Path

from projections.rebuild import Rebuild, opened
from projections.stored.catalogue import named

STDIN = 0


def main() -> None:
    """Fold what was asked for; whoever asked finds in the file how far that came."""
    data_dir, names = Path(sys.argv[1]), tuple(sys.argv[2:])
    threading.Thread(target=_end_together, name="end-together", daemon=True).start()
    with opened(data_dir) as (source, database):
        Rebuild(database, source, named(names)).help(_say)


def _say(position: int, _: int) -> None:
    print(position, flush=True)


def _end_together() -> None:
    """End when whoever asked has ended, or wants no more; what is half written is rolled back as after any kill.

    It waits on the descriptor: a thread that waits inside ``sys.stdin`` holds that object's lock, and the interpreter,
    which wants it at its end, would wait a second for it and then abort.
    """
    while os.read(STDIN, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
