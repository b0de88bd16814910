"""The books about ground and turns that no single decision shows, held against what is really so.

Unknown is never a loss: a workspace is recorded as lost, or its making as failed, only when its body has really ended
or its budget was really used up while somebody could see it. It is lost once, its turns end once, and it is reaped only
when nobody said for the idle time that it is needed. Whoever gives a lease up has really stopped.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from domain.grounds import BUDGET_SPENT
from domain.lease import Held, LeaseReleased
from domain.run_facts import RunClosed
from domain.standing import Standing
from domain.turn_facts import TurnCompleted, TurnCut, TurnFailed
from domain.workspace import Workspace, workspace_stream
from domain.workspace_facts import (
    ProvisionFaulted,
    WorkspaceLost,
    WorkspacePlaced,
    WorkspaceProvisioning,
    WorkspaceReaped,
)
from journal.mapper import Recorded
from simulation.broken import LawBroken
from simulation.ground_laws import L7, TURNS
from simulation.truth import Truth

UNKNOWN = "unknown is never a loss: only the end of the very body is"
BUDGET = "a body has its whole budget, as long as somebody can see it"
NEEDED = "a workspace that somebody needs is not reaped"
OWNED = "ownership is kept until the work has really stopped"
ROUNDING_S = 1e-6


class GroundBooks:
    """Keeps them; ``elapsed_s`` and ``exact_s`` are seconds since the world began, at most and by the fixed scale."""

    def __init__(self, truth: Truth, elapsed_s: Callable[[], float], states: Mapping[str, Any]) -> None:
        self.budget_s, self.idle_s = 0.0, 0.0
        """How long the service gives a body, and how long it waits for an assertion."""
        self._truth = truth
        self._elapsed_s = elapsed_s
        self._states = states
        self._lost: Counter[str] = Counter()
        self._ended: Counter[tuple[str, int]] = Counter()
        self._making: dict[str, float] = {}

    def book(self, recorded: Recorded, standing: Standing) -> None:  # noqa: C901  (one arm for each fact)
        """Take note of one fact; ``standing`` is its run after the decision."""
        fact, name = recorded.fact, recorded.stream.partition("-")[2]
        match fact:
            case WorkspacePlaced():
                self._truth.asserted[name] = self._elapsed_s()
                if fact.provider == "external":
                    self._making[name] = self._elapsed_s()
            case WorkspaceProvisioning():
                self._making.setdefault(name, self._elapsed_s())
            case WorkspaceLost():
                self._lose(name, fact, recorded)
            case ProvisionFaulted():
                self._fault(name, fact, recorded)
            case WorkspaceReaped():
                self._reap(name, standing, recorded)
            case TurnCompleted(turn=turn) | TurnFailed(turn=turn) | TurnCut(turn=turn):
                self._ended[name, turn] += 1
                if self._ended[name, turn] > 1:
                    raise LawBroken(TURNS, f"turn {turn} ended twice", [recorded])
            case LeaseReleased(fence=fence) | RunClosed(fence=fence):
                if (name, fence) in self._truth.working:
                    raise LawBroken(OWNED, f"given up under fence {fence}, and still being worked on", [recorded])
            case _:
                pass

    def _lose(self, name: str, fact: WorkspaceLost, recorded: Recorded) -> None:
        self._lost[name] += 1
        if self._lost[name] > 1:
            raise LawBroken(L7, "lost a second time", [recorded])
        if not self._truth.ended(name, fact.identity):
            raise LawBroken(UNKNOWN, f"{fact.identity!r} is there, and was recorded as lost", [recorded])

    def _fault(self, name: str, fact: ProvisionFaulted, recorded: Recorded) -> None:
        if fact.reason != BUDGET_SPENT:
            if not self._truth.ended(name):
                raise LawBroken(UNKNOWN, "a body that has not ended was recorded as failed", [recorded])
            return
        spent_s = self._elapsed_s() - self._making.get(name, self._elapsed_s())
        if spent_s + ROUNDING_S < self.budget_s:
            raise LawBroken(BUDGET, f"its budget is {self.budget_s:g} s, and {spent_s:g} s have passed", [recorded])

    def _reap(self, name: str, standing: Standing, recorded: Recorded) -> None:
        idle_s = self._elapsed_s() - self._truth.asserted.get(name, 0.0)
        workspace: Workspace = self._states[workspace_stream(name)]
        over = workspace.lost is not None or workspace.fault is not None
        is_open = standing.state not in ("succeeded", "failed", "cancelled", "aborted", "lost")
        asserted_by_us = workspace.provider == "kubernetes" and is_open and not over
        nobodys = is_open and not over and not isinstance(standing.lease, Held)
        if idle_s + ROUNDING_S < self.idle_s or asserted_by_us or nobodys:
            raise LawBroken(NEEDED, f"reaped {idle_s:g} s after somebody needed it", [recorded])
