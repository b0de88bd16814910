"""What a fact ends: a run, or an attempt. Several projections ask, and must give one answer."""

from domain.run_facts import TERMINAL, AttemptEnded, RunClosed, RunSettled, VerdictRendered
from domain.values import Fact

GIVEN_BACK = frozenset({"handed_back", "parked", "slice_ended"})
"""The holder ended the attempt itself, without closing it."""

LOST = frozenset({"expired", "detached", "stalled", "workspace_lost"})
"""The attempt ended because its holder was not heard, or had nothing to stand on."""


def settles_as(fact: Fact) -> str | None:
    """The state in which the run ends with this fact; None when it goes on."""
    match fact:
        case RunClosed():
            return fact.state if fact.state in TERMINAL else None
        case RunSettled():
            return fact.state
        case VerdictRendered():
            return fact.verdict
        case _:
            return None


def end_of(fact: AttemptEnded | RunClosed) -> str | None:
    """How the attempt ended: ``succeeded``, ``failed``, ``given_back``, ``lost`` or ``revoked``; None for a late close.

    A late close belongs to an attempt that a clock has ended before; it is no second end.
    """
    if isinstance(fact, RunClosed):
        return None if fact.late else fact.outcome
    if fact.outcome in GIVEN_BACK:
        return "given_back"
    return "lost" if fact.outcome in LOST else "revoked"
