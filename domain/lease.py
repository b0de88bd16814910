"""The lease: the right of one worker to act for one run, for a while.

A lease is identified by its run and its *fence*, an integer that rises by one at every grant and at every settlement
that is not the holder's own close, and never falls. The first fence of a run is 1.

    Vacant --grant--> Held --close, park, hand back, expiry, revocation--> Vacant
    Vacant --reserve--> Reserved --bind--> Held        Reserved --cancelled, lapsed--> Vacant

A lease is live while ``now < deadline``, where ``deadline = last renewal (or grant) + ttl_s`` on the monotonic clock;
at the deadline itself it is over. The last renewal is not a fact but a mark in the evidence register, handed in as
``LeaseMark``; the fact that ends a lease carries the mark that it was judged by.

Expiry may only transfer. It ends the right to renew at once; whether a guarded write is accepted is a question for
the journal (holder and fence, by equality), never for the clock, so a write either comes before the transfer in the
journal or is refused. A silent worker therefore loses the run to the next claimant, and nothing else.

A *slice* (``max_hold_s``, none by default) bounds how long a lease may be held in one go: at its end ``SliceEnded``
is journaled and one last ttl remains to save in. A *reservation* is a grant to a worker that is not ready: it raises
the fence and counts in every limit, but gives no right to write until it is bound by its random token.

Durations are in seconds; instants in facts are aware UTC and are for people.
"""

from datetime import datetime
from typing import Any, Literal, assert_never

import msgspec

from domain.refusal import Refusal
from domain.values import Fact, Moment, Value

TTL_MIN_S = 0.5
TTL_MAX_S = 3600.0


class Last(Value, frozen=True, kw_only=True):
    """Who held the lease last, under which fence, and why that ended."""

    worker: str
    fence: int
    cause: str


class Vacant(Value, frozen=True, kw_only=True):
    """Nobody holds the lease; ``fence`` is the one in force (0: never granted)."""

    version: int = 0
    fence: int = 0
    last: Last | None = None


class Reserved(Value, frozen=True, kw_only=True):
    """Granted to a worker that is still acquiring what it needs."""

    version: int
    fence: int
    token: str
    worker: str
    lapses_at: datetime
    last: Last | None


class Held(Value, frozen=True, kw_only=True):
    """One worker may act under this fence."""

    version: int
    fence: int
    worker: str
    granted_at: datetime
    ttl_s: float
    slice_ends_at: datetime | None
    sliced: bool = False
    last: Last | None = None


Lease = Vacant | Reserved | Held
VACANT = Vacant()


class FenceBumped(Fact, frozen=True, kw_only=True):
    """The grant: this worker holds the lease under this fence."""

    fence: int
    worker: str
    ttl_s: float
    granted_at: datetime
    slice_ends_at: datetime | None
    cause: Literal["queue", "id"]


class LeaseReserved(Fact, frozen=True, kw_only=True):
    """A grant ahead of readiness; the token proves who may bind it."""

    fence: int
    token: str
    worker: str
    lapses_at: datetime


class LeaseBound(Fact, frozen=True, kw_only=True):
    """The reserving worker became ready and holds the lease under the reservation's fence."""

    fence: int
    worker: str
    ttl_s: float
    granted_at: datetime
    slice_ends_at: datetime | None


class ReservationCancelled(Fact, frozen=True, kw_only=True):
    """The reservation was given back; nothing was consumed."""

    fence: int
    token: str
    worker: str
    cause: str


class ReservationLapsed(Fact, frozen=True, kw_only=True):
    """The reservation was not bound in time; nothing was consumed."""

    fence: int
    token: str
    worker: str
    lapses_at: datetime


class LeaseExpired(Fact, frozen=True, kw_only=True):
    """The deadline passed; carries the mark that it was judged by."""

    fence: int
    worker: str
    last_renewed_at: datetime
    renewals: int
    detached: bool
    expired_at: datetime


class LeaseReleased(Fact, frozen=True, kw_only=True):
    """The holder gave the lease back itself."""

    fence: int
    worker: str
    cause: Literal["closed", "parked", "handed_back"]


class LeaseRevoked(Fact, frozen=True, kw_only=True):
    """The lease was taken away; ``fence`` is the one in force afterwards, raised when the run was settled."""

    fence: int
    worker: str | None
    cause: str


class SliceEnded(Fact, frozen=True, kw_only=True):
    """The holder has held the lease for its slice; one last ttl remains to save in."""

    fence: int
    worker: str
    slice_ends_at: datetime


LeaseFact = (
    FenceBumped
    | LeaseReserved
    | LeaseBound
    | ReservationCancelled
    | ReservationLapsed
    | LeaseExpired
    | LeaseReleased
    | LeaseRevoked
    | SliceEnded
)


class LeaseMark(Value, frozen=True, kw_only=True):
    """What the evidence register knows of a held lease; instants in ``mono`` seconds unless they end in ``_at``."""

    fence: int
    deadline: float
    renewed_at: datetime
    renewals: int = 0
    detached: bool = False
    full_deadline: float | None = None
    """What the deadline was before a detachment made it shorter."""

    @property
    def ttl_deadline(self) -> float:
        """The deadline by the ttl alone."""
        return self.deadline if self.full_deadline is None else self.full_deadline

    def live(self, now: Moment) -> bool:
        """Whether the lease is still live; at the deadline itself it is over."""
        return now.mono < self.deadline


class FenceLost(Refusal):
    """The presented fence gives no right to write."""

    code = "fence_lost"

    def __init__(self, *, presented: int, current: int, holder: str | None, reason: str) -> None:
        held = f"held by {holder!r}" if holder else "held by nobody"
        in_force = "it is in force and" if presented == current else f"fence {current} is in force,"
        super().__init__(
            f"fence {presented} gives no right to act: {in_force} {held} ({reason})",
            presented=presented, current=current, holder=holder, reason=reason,
        )  # fmt: skip


class FenceRequired(Refusal):
    """The write carries no fence, and this service requires one."""

    code = "fence_required"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"a write to run {run_id!r} must present the fence of its lease", run_id=run_id)


class LeaseHeld(Refusal):
    """Somebody else has the run; try again when ``retry_after_s`` has passed."""

    code = "lease_held"

    def __init__(self, *, holder: str, fence: int, retry_after_s: float) -> None:
        super().__init__(
            f"lease is held by {holder!r} under fence {fence} for another {retry_after_s:g} s unless it is renewed",
            holder=holder, fence=fence, retry_after_s=retry_after_s,
        )  # fmt: skip


class ReservationLost(Refusal):
    """The token belongs to no reservation in force: cancelled, lapsed, bound, or made anew."""

    code = "reservation_lost"

    def __init__(self, token: str) -> None:
        super().__init__(f"no reservation in force has the token {token!r}", token=token)


def evolve(lease: Lease, fact: LeaseFact) -> Lease:  # noqa: C901  (one arm for each fact)
    """The lease after one more fact."""
    version = lease.version + 1
    match fact:
        case FenceBumped() | LeaseBound():
            return Held(
                version=version,
                fence=fact.fence,
                worker=fact.worker,
                granted_at=fact.granted_at,
                ttl_s=fact.ttl_s,
                slice_ends_at=fact.slice_ends_at,
                last=lease.last,
            )
        case LeaseReserved():
            return Reserved(
                version=version,
                fence=fact.fence,
                token=fact.token,
                worker=fact.worker,
                lapses_at=fact.lapses_at,
                last=lease.last,
            )
        case ReservationCancelled():
            return _vacated(version, fact.fence, fact, "reservation_cancelled")
        case ReservationLapsed():
            return _vacated(version, fact.fence, fact, "reservation_lapsed")
        case LeaseExpired():
            return _vacated(version, fact.fence, fact, "detached" if fact.detached else "lease_expired")
        case LeaseReleased():
            return _vacated(version, fact.fence, fact, fact.cause)
        case LeaseRevoked():
            return _revoked(version, lease, fact)
        case SliceEnded():
            return _sliced(version, lease)
        case _:
            assert_never(fact)


def _vacated(version: int, fence: int, fact: Any, cause: str) -> Vacant:
    return Vacant(version=version, fence=fence, last=Last(worker=fact.worker, fence=fact.fence, cause=cause))


def _revoked(version: int, lease: Lease, fact: LeaseRevoked) -> Vacant:
    if fact.worker is None:
        return Vacant(version=version, fence=fact.fence, last=lease.last)
    return Vacant(version=version, fence=fact.fence, last=Last(worker=fact.worker, fence=lease.fence, cause=fact.cause))


def _sliced(version: int, lease: Lease) -> Lease:
    changes: dict[str, object] = {"sliced": True} if isinstance(lease, Held) else {}
    return msgspec.structs.replace(lease, version=version, **changes)


def holder_of(lease: Lease) -> str | None:
    """The worker that holds or has reserved the lease, if any."""
    return None if isinstance(lease, Vacant) else lease.worker
