"""What a fence is good for when it no longer holds the lease: why it was lost, and whether its close is still welcome.

A worker that presents a fence which gives no right is told the fence in force, who holds it, and why its own ended, in
one stable word. One right outlives an end by a clock: as long as nothing was granted since, the *late holder* may
still close, since work that was done is not thrown away.
"""

from domain.lease import FenceLost, Lease, Vacant, holder_of

LATE_CAUSES = frozenset({"lease_expired", "detached"})
"""Ends by a clock: the holder may still be working, and its close is welcome until somebody else is granted."""


def why_lost(lease: Lease, presented: int) -> str:
    """Why this fence gives no right, in one stable word."""
    if presented > lease.fence:
        return "never_granted"
    if lease.last is not None and lease.last.fence == presented:
        return lease.last.cause
    return "other_holder" if presented == lease.fence else "taken_over"


def fence_lost(lease: Lease, presented: int) -> FenceLost:
    """The refusal of a write under this fence, with the facts of the case."""
    return FenceLost(
        presented=presented, current=lease.fence, holder=holder_of(lease), reason=why_lost(lease, presented)
    )


def is_late(lease: Lease, fence: int) -> bool:
    """Whether this fence is in force, ended by a clock, and nothing was granted since."""
    last = lease.last
    return (
        isinstance(lease, Vacant)
        and last is not None
        and lease.fence == fence == last.fence
        and last.cause in LATE_CAUSES
    )
