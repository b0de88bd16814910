"""A second process that folds half of the facts of a large rebuild, where there is a core for it.

One interpreter folds on one core. So a helper folds the facts of every second stream, and the process that was asked
those of the others; all streams of a run belong to the same half. Each reads and decodes its own half only, and writes
through the same lock into the same tables, portion by portion with the position that its half has reached. That is
right because what a fold writes for one subject does not depend on other subjects, and sums do not on their order.

The helper adds no state of its own: what it leaves is what a rebuild that was stopped leaves. When it has ended, in
whichever way, the process that was asked goes on from there: with next to nothing left to do when all went well, and
with the helper's whole half when it could not even begin. Nothing depends on it but time.

It shares the right to rebuild with the process that started it (the lock is one open file), so nobody else rebuilds as
long as one of them lives; and it ends when that process does, however it ended, because its standard input closes then.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from projections.stored.projection import Projection

HELPED_FROM = 50_000
"""Facts to fold from which a helper is worth its start, which costs a third of a second."""

LOOK_S = 0.05
"""How often a process that has done its own share looks how far the helper is."""

STOP_S = 10.0

MODULE = "projections.help"

Report = Callable[[int, int], None]


def worth_helping(facts: int) -> bool:
    """Whether a helper is worth its start when so many facts are to be folded."""
    return facts >= HELPED_FROM and _cores() > 1


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Helper:
    """The other process. Leaving the block ends it, if it has not ended; what it wrote stays."""

    def __init__(self, data_dir: Path, projections: Sequence[Projection], right: int) -> None:
        self.position = 0
        """The position that it has reached, as it last said."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(data_dir), *(one.name for one in projections)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(right,),
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, name="rebuild-helper", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.position = int(line)

    def wait(self, upto: int, report: Report) -> None:
        """Return when it has ended, and tell meanwhile how far it is."""
        while True:
            try:
                self._process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                report(min(self.position, upto), upto)
            else:
                return

    @property
    def exit_code(self) -> int | None:
        """How it ended: 0 when it did its whole share, negative by a signal; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait(STOP_S)

    def __enter__(self) -> "Helper":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._listener.join(STOP_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
