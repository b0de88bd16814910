"""Health: what the service says about itself, honestly and with a memory.

``status`` is ``ok``; ``degraded`` while something has failed that was not acknowledged, or a part lags or cannot see;
``error`` while nothing can be made durable. The first error stays until it clears by itself or an operator says that it
was seen (``POST /v1/health/ack``): a failure at night is still there in the morning.

Writes refused for their fence are counted per route: a worker that goes on writing under a stale fence shows here, not
only in its own log. Counters are since the start of this process.
"""

import logging
from collections import Counter
from collections.abc import Callable

from api.problems import Problem, problem_of
from domain.lease import FenceLost
from journal.errors import EpochChanged, JournalClosed, JournalTaken, OutcomeUnknown, UnreadableStorage

log = logging.getLogger(__name__)

Source = tuple[Callable[[], str | None], Callable[[], None]]
"""What a part's unacknowledged error is, and how to acknowledge it."""


class Health:
    """Counters and the first error of one process."""

    def __init__(self) -> None:
        self.refused_stale: Counter[str] = Counter()
        self.first_error: str | None = None
        self.storage_down: str | None = None
        self.sources: dict[str, Source] = {}

    def problem(self, route: str, error: Exception) -> Problem:
        """The problem to answer with; what it means for the service's health is noted."""
        if isinstance(error, FenceLost):
            self.refused_stale[route] += 1
        problem = problem_of(error)
        if self.storage_failed(route, error):
            self.note(f"{route}: {error}")
        elif problem.status == 500 and not isinstance(error, JournalClosed):
            log.error("%s failed", route, exc_info=error)
            self.note(f"{route}: {type(error).__name__}: {error}")
        return problem

    def storage_failed(self, where: str, error: Exception) -> bool:
        """Whether this says that nothing can be made durable, or read; it stays so until something is."""
        failed = isinstance(error, EpochChanged | JournalTaken | OutcomeUnknown | UnreadableStorage)
        if failed:
            self.storage_down = f"{where}: {error}"
        return failed

    def note(self, error: str) -> None:
        """Keep an error until it is acknowledged, if it is the first."""
        if self.first_error is None:
            self.first_error = error

    def appended(self) -> None:
        """Something was made durable: storage is there again."""
        self.storage_down = None

    def error(self) -> str | None:
        """The first unacknowledged error of any part."""
        if self.first_error is not None:
            return self.first_error
        for name, (ask, _) in self.sources.items():
            found = ask()
            if found is not None:
                return f"{name}: {found}"
        return None

    def status(self) -> str:
        """``ok``, ``degraded`` or ``error``."""
        if self.storage_down is not None:
            return "error"
        return "ok" if self.error() is None else "degraded"

    def acknowledge(self) -> None:
        """Somebody has seen the first error."""
        self.first_error = self.storage_down = None
        for _, acknowledge in self.sources.values():
            acknowledge()
