"""A second process that folds the heaviest read model of a large rebuild, where there is a core for it.

One interpreter folds on one core. ``runs``, whose rows are whole documents, costs about as much as all other read
models together, so a helper folds it while the process that was asked folds the rest. Each reads the journal for
itself, decodes only what its own folds want, and writes through the same lock, portion by portion with the position.

The helper adds no state of its own: what it leaves is what a rebuild that was stopped leaves. When it has ended, in
whichever way, the process that was asked goes on from there: with nothing left to do when all went well, and with
everything when the helper could not even begin. Nothing depends on it but time.

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
from projections.stored.runs_fold import NAME as HEAVIEST

HELPED_FROM = 50_000
"""Facts to fold from which a helper is worth its start, which costs a third of a second."""

LOOK_S = 0.05
"""How often a process that has done its own share looks how far the helper is."""

STOP_S = 10.0

MODULE = "projections.help"

Report = Callable[[int, int], None]


def shared(projections: Sequence[Projection], facts: int) -> tuple[list[Projection], list[Projection]]:
    """What the process that was asked folds itself, and what a helper folds meanwhile; nothing, where none is worth it.

    ``facts`` is how many are to be folded.
    """
    if facts < HELPED_FROM or len(projections) == 1 or _cores() == 1:
        return list(projections), []
    return (
        [projection for projection in projections if projection.name != HEAVIEST],
        [projection for projection in projections if projection.name == HEAVIEST],
    )


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
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

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
