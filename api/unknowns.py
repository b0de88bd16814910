"""What waits for somebody who does not come: workspaces that nobody sees, and bodies that nobody destroys.

*Unknown* is not *gone*: nothing follows from it but that it is shown. An unknown that lasts is somebody's watch that
has failed unnoticed, so once the oldest is ``observer_alarm_s`` seconds old the service counts as degraded. So it does
once a body that is to be destroyed has been for ``teardown_alarm_s``: its provider is told again and again, and only
its word, or an operator's, ends that; no clock says that a body is no more. Both clear by themselves, and an operator
who acknowledges puts those to rest that were overdue by then.

What is left of a run that has ended is nobody's to watch, and is never unknown. Ages are on the monotonic clock: time
during which no node was up has not passed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import islice
from typing import Any

from commands.desk import Desk
from projections.live.grounds import GroundCard

SHOWN_MAX = 100
"""Unknowns that are listed; all are counted."""


class Overdue(ABC):
    """Workspaces that have waited for too long; the longest is told until an operator has seen it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._seen = float("-inf")

    @property
    @abstractmethod
    def bound_s(self) -> float:
        """How long one may wait."""

    @abstractmethod
    def waiting(self) -> Iterable[tuple[GroundCard, float]]:
        """Those that wait, and since when, the longest first."""

    @abstractmethod
    def sentence(self, card: GroundCard, age_s: float) -> str:
        """What is wrong, for people."""

    def error(self) -> str | None:
        """What is wrong with the first that waits too long, unless somebody has seen that it does."""
        now, bound_s = self.desk.clock().mono, self.bound_s
        for card, since in self.waiting():
            if now - since < bound_s:
                return None
            if since + bound_s > self._seen:
                return self.sentence(card, now - since)
        return None

    def acknowledge(self) -> None:
        """An operator has seen all that are overdue now."""
        self._seen = self.desk.clock().mono


class Unseen(Overdue):
    """Workspaces of open runs that nobody sees."""

    @property
    def bound_s(self) -> float:
        """How long a workspace may be unknown."""
        return self.desk.timers.observer_alarm_s

    def waiting(self) -> Iterable[tuple[GroundCard, float]]:
        """Those that are unknown."""
        return ((card, card.unknown_from) for card in self.desk.live.grounds.unknown() if card.unknown_from is not None)

    def sentence(self, card: GroundCard, age_s: float) -> str:
        """Which, for how long, and why."""
        return f"workspace {card.workspace_id} has been unknown for {age_s:.0f} s ({card.unknown_cause})"


class Undestroyed(Overdue):
    """Bodies that are to be destroyed."""

    @property
    def bound_s(self) -> float:
        """How long a body may wait to be destroyed."""
        return self.desk.timers.teardown_alarm_s

    def waiting(self) -> Iterable[tuple[GroundCard, float]]:
        """Those that are to be destroyed."""
        return ((card, card.teardown_from) for card in self.desk.live.grounds.going() if card.teardown_from is not None)

    def sentence(self, card: GroundCard, age_s: float) -> str:
        """Which, for how long, and who was to destroy it."""
        whose = f"of worker {card.worker!r}" if card.scope is None else f"in scope {card.scope!r}"
        return (
            f"workspace {card.workspace_id} {whose} was to be destroyed {age_s:.0f} s ago, and nobody says that it was"
        )


def unknowns(desk: Desk) -> list[dict[str, Any]]:
    """The longest unknown workspaces, with since when and how long."""
    now = desk.clock().mono
    return [
        {
            "workspace_id": card.workspace_id,
            "run_id": card.run_id,
            "scope": card.scope,
            "cause": card.unknown_cause,
            "since": card.unknown_since,
            "age_s": round(0.0 if card.unknown_from is None else now - card.unknown_from, 3),
        }
        for card in islice(desk.live.grounds.unknown(), SHOWN_MAX)
    ]


def observers(desk: Desk, unseen: Overdue) -> dict[str, Any]:
    """How many workspaces and scopes there are, and what became of the observations since this process started."""
    grounds, marks, now = desk.live.grounds, desk.evidence.grounds, desk.clock().mono
    watching = [
        {"scope": scope[1], "run_id": observer.run_id, "silent_s": round(now - observer.seen.mono, 3)}
        for scope, observer in islice(marks.observers(), SHOWN_MAX)
    ]
    return {
        "workspaces": len(grounds),
        "unknown": grounds.sizes()["unknown"],
        "scopes": marks.sizes()["observers"],
        "watching": watching,
        "observations": dict(marks.counts),
        "first_error": unseen.error(),
    }


def teardown(desk: Desk, undestroyed: Overdue) -> dict[str, Any]:
    """How many bodies are to be destroyed, and for how long the one has been that has waited longest."""
    oldest, now = next(iter(undestroyed.waiting()), None), desk.clock().mono
    return {
        "waiting": desk.live.grounds.sizes()["going"],
        "oldest_s": None if oldest is None else round(now - oldest[1], 3),
        "first_error": undestroyed.error(),
    }
