"""Tenures: how long whoever has a lease may keep it, on the clock of this node.

A *held* lease has a ttl and perhaps a slice; a *reserved* one lapses. Facts say when in calendar instants, which are
for people; what follows from them is counted here in monotonic seconds, from the moment at which the fact is folded, so
that nobody gains or loses by a wall clock that is set. A restart gives leases and reservations their whole time again;
a slice goes on where it was.
"""

from datetime import datetime
from typing import NamedTuple

from domain.lease import FenceBumped, Held, LeaseBound, LeaseReserved
from domain.values import Moment
from evidence.memory import LeaseMarks
from projections.live.cards import Grant
from projections.live.deadlines import LEASE_KINDS, Deadlines, Kind, due


class Promise(NamedTuple):
    """A reservation: its token, how long it is good for, and when it lapses, in monotonic seconds."""

    token: str
    length_s: float
    lapses: float


class Tenures:
    """Every lease that is held or reserved, by run, with the reminders of what ends it."""

    def __init__(self, marks: LeaseMarks, deadlines: Deadlines) -> None:
        self.held: dict[str, Grant] = {}
        self.promised: dict[str, Promise] = {}
        self.tokens: dict[str, str] = {}
        """Reservation token to run id."""
        self._marks = marks
        self._deadlines = deadlines

    def granted(self, run_id: str, fact: FenceBumped | LeaseBound, at: Moment) -> None:
        """The lease is held from now on."""
        self.forget_promise(run_id)
        slice_ends = None if fact.slice_ends_at is None else at.mono + _after_s(at, fact.slice_ends_at)
        self.held[run_id] = Grant(fact.ttl_s, fact.fence, slice_ends)
        self._mark(run_id, fact.fence, fact.ttl_s, at)
        if slice_ends is not None:
            self._remind("slice", slice_ends, run_id, str(fact.fence))

    def reserved(self, run_id: str, fact: LeaseReserved, at: Moment) -> None:
        """The lease is kept for a worker that is not ready yet."""
        length_s = _after_s(at, fact.lapses_at)
        self.tokens[fact.token] = run_id
        self._promise(run_id, fact.token, length_s, at)

    def _promise(self, run_id: str, token: str, length_s: float, now: Moment) -> None:
        self.promised[run_id] = Promise(token, length_s, now.mono + length_s)
        self._remind("reservation", now.mono + length_s, run_id, token)

    def forget_promise(self, run_id: str) -> None:
        """The reservation is over: bound, cancelled or lapsed."""
        promise = self.promised.pop(run_id, None)
        if promise is not None:
            del self.tokens[promise.token]
            self._deadlines.forget("reservation", (run_id,))

    def ended(self, run_id: str) -> None:
        """Nobody has the lease any more."""
        self.forget_promise(run_id)
        self.held.pop(run_id, None)
        self._marks.drop(run_id)
        self._deadlines.forget_each(LEASE_KINDS, (run_id,))

    def sliced(self, run_id: str, at: Moment) -> None:
        """The slice ended: one last ttl from then on."""
        self._deadlines.forget("slice", (run_id,))
        held = self.held.get(run_id)
        if held is not None:
            self._marks.extend(run_id, at.mono + held.ttl_s)
            self._remind("lease", at.mono + held.ttl_s, run_id, str(held.fence))

    def shorten(self, run_id: str, broke: float, window_s: float) -> None:
        """The holder's last stream was closed by its side, at that moment: its lease ends so long after it."""
        held = self.held.get(run_id)
        if held is not None:
            self._marks.shorten(run_id, broke, window_s)
            self._remind("lease", broke + window_s, run_id, str(held.fence))

    def mark_anew(self, run_id: str, lease: Held, now: Moment) -> None:
        """The mark of a held lease is missing: it is made as now, unless an expiry that is under way has taken it."""
        if not self._marks.taken(run_id):
            self._mark(run_id, lease.fence, lease.ttl_s, now)

    def _mark(self, run_id: str, fence: int, ttl_s: float, now: Moment) -> None:
        self._marks.grant(run_id, fence, now.mono + ttl_s, now)
        self._remind("lease", now.mono + ttl_s, run_id, str(fence))

    def held_under(self, run_id: str) -> str | None:
        """The fence of a held lease as its reminders carry it; None when nobody holds it."""
        held = self.held.get(run_id)
        return None if held is None else str(held.fence)

    def ends(self, run_id: str) -> float | None:
        """When a reservation lapses, or the slice of a held lease ends; None when there is neither."""
        held, promise = self.held.get(run_id), self.promised.get(run_id)
        if held is not None:
            return held.slice_mono
        return None if promise is None else promise.lapses

    def rebase(self, now: Moment, late_s: float) -> None:
        """The service has just started: leases and reservations have their whole time, slices what was left of it."""
        for run_id, promise in list(self.promised.items()):
            self._deadlines.forget("reservation", (run_id,))
            self._promise(run_id, promise.token, promise.length_s, now)
        for run_id, held in list(self.held.items()):
            slice_ends = None if held.slice_mono is None else held.slice_mono + late_s
            self.held[run_id] = held._replace(slice_mono=slice_ends)
            self._deadlines.forget("lease", (run_id,))
            self._mark(run_id, held.fence, held.ttl_s, now)

    def _remind(self, kind: Kind, mono: float, run_id: str, mark: str) -> None:
        self._deadlines.add(due(mono, kind, (run_id,), mark))


def _after_s(at: Moment, instant: datetime) -> float:
    return (instant - at.wall).total_seconds()
