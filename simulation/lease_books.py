"""The books about leases: how long each had really not been renewed when the service gave it up.

A lease lasts its ttl from the last renewal that was acknowledged, by the clock of the node that serves and by no other:
not by its holder's, whose second may be half as long, and not by that of the node that served before. A restart gives
every lease its whole ttl anew. A lease that ended sooner was judged by something else than the service's own clock.
"""

from domain.lease import FenceBumped, LeaseExpired
from domain.run_facts import AttemptStarted
from domain.standing import Standing
from domain.worker import WorkerDetached
from journal.mapper import Recorded
from simulation.broken import LawBroken
from simulation.truth import Truth

LEASE = "a lease lasts its ttl, by the clock of the node that serves and no other"
ROUNDING_S = 1e-6


class LeaseBooks:
    """Keeps them, in served seconds."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._booted_s = 0.0
        self._detached: dict[str, list[tuple[float, float]]] = {}

    def booted(self) -> None:
        """A process begins to serve: every lease has its whole ttl from now."""
        self._booted_s = self._truth.served_s()

    def book(self, recorded: Recorded, run_id: str, before: Standing | None) -> None:
        """Take note of one fact; ``before`` is its run before the decision.

        Raises:
            LawBroken: a lease was given up before its time.
        """
        fact, now_s = recorded.fact, self._truth.served_s()
        match fact:
            case FenceBumped() | AttemptStarted():
                self._truth.heard[run_id, fact.fence] = now_s
            case WorkerDetached():
                self._detached.setdefault(fact.worker_id, []).append((now_s, fact.window_s))
            case LeaseExpired() if before is not None:
                self._expire(run_id, fact, before, recorded)
            case _:
                pass

    def _expire(self, run_id: str, fact: LeaseExpired, before: Standing, recorded: Recorded) -> None:
        since_s = max(self._truth.heard.get((run_id, fact.fence), 0.0), self._booted_s)
        ttl_s, now_s = before.known.policy.lease_ttl_s, self._truth.served_s() + ROUNDING_S
        short = fact.detached or getattr(before.lease, "sliced", False)
        by_its_stream = short and any(
            went_s >= since_s and now_s - went_s >= window_s for went_s, window_s in self._detached.get(fact.worker, ())
        )
        if now_s - since_s < ttl_s and not by_its_stream:
            raise LawBroken(LEASE, f"given up after {now_s - since_s:g} of {ttl_s:g} s", [recorded])
