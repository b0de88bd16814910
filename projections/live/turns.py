"""Turns that were admitted and not delivered yet: each is tried again by its worker until its window has passed.

The *admission window* starts at the admission, and anew when the service starts. A turn that was delivered waits
without a deadline, so nothing is kept of it here; nor is anything of a turn whose attempt has ended.
"""

from domain.run_facts import AttemptEnded, AttemptStarted, RunClosed, RunFact, RunParked, RunSettled
from domain.turn_facts import TurnAdmitted, TurnCompleted, TurnCut, TurnFailed, TurnMoved
from domain.values import Moment
from projections.live.deadlines import Deadlines, due


class Admissions:
    """The undelivered turns of every open run."""

    def __init__(self, window_s: float, deadlines: Deadlines) -> None:
        self._open: dict[str, dict[int, float]] = {}
        self._window_s = window_s
        self._deadlines = deadlines

    def __len__(self) -> int:
        return len(self._open)

    def due(self, run_id: str, turn: int) -> float | None:
        """When the window of this turn has passed; None when it was delivered or has ended."""
        since = self._open.get(run_id, {}).get(turn)
        return None if since is None else since + self._window_s

    def of_run(self, run_id: str) -> dict[int, float]:
        """The undelivered turns of a run, and since when they are, in monotonic seconds."""
        return dict(self._open.get(run_id, {}))

    def fold(self, run_id: str, fact: RunFact, at: Moment) -> None:
        """Take over one fact of an open run."""
        match fact:
            case TurnAdmitted(turn=turn):
                self._admit(run_id, turn, at.mono)
            case TurnMoved(turn=turn) | TurnCompleted(turn=turn) | TurnFailed(turn=turn) | TurnCut(turn=turn):
                self._forget(run_id, turn)
            case AttemptStarted() | AttemptEnded() | RunClosed() | RunSettled() | RunParked(lease_kept=False):
                self.forget_run(run_id)
            case _:
                pass

    def rebase(self, now: Moment) -> None:
        """The service has just started: every window starts anew."""
        for run_id, turns in self._open.items():
            for turn in list(turns):
                self._deadlines.forget("turn", (run_id, str(turn)))
                self._admit(run_id, turn, now.mono)

    def forget_run(self, run_id: str) -> None:
        """The attempt has ended, and its turns with it."""
        for turn in self._open.pop(run_id, {}):
            self._deadlines.forget("turn", (run_id, str(turn)))

    def _admit(self, run_id: str, turn: int, mono: float) -> None:
        self._open.setdefault(run_id, {})[turn] = mono
        self._deadlines.add(due(mono + self._window_s, "turn", (run_id, str(turn)), ""))

    def _forget(self, run_id: str, turn: int) -> None:
        turns = self._open.get(run_id, {})
        if turns.pop(turn, None) is not None:
            self._deadlines.forget("turn", (run_id, str(turn)))
            if not turns:
                del self._open[run_id]
