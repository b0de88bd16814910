"""Leases from their facts, for tests that look at nothing else."""

from domain.decider import fold
from domain.lease import VACANT, Lease, LeaseFact, LeaseReleased, LeaseRevoked, evolve
from domain.values import Fact
from tests.domain.facts import granted


def lease(*facts: Fact | list[Fact]) -> Lease:
    """The lease after these facts; those of the run are passed over."""
    flat = [fact for each in facts for fact in (each if isinstance(each, list) else [each])]
    initial: Lease = VACANT
    return fold(evolve, initial, [fact for fact in flat if isinstance(fact, LeaseFact)])


def held(fence: int = 1) -> list[Fact]:
    """Ada holds it."""
    return granted("ada", fence)


def revoked(fence: int, worker: str | None = "ada") -> LeaseRevoked:
    """It was taken away."""
    return LeaseRevoked(fence=fence, worker=worker, cause="cancelled")


def released(cause: str) -> LeaseReleased:
    """Ada gave it back."""
    return LeaseReleased(fence=1, worker="ada", cause=cause)  # type: ignore[arg-type]
