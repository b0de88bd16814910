"""The lease: what each fact makes of it, and until when its mark is live."""

from datetime import datetime

import pytest

from domain.lease import (
    VACANT,
    Held,
    Last,
    LeaseMark,
    Reserved,
    Vacant,
    holder_of,
)
from domain.values import Fact, Moment
from tests.domain.facts import bound, granted, lease_expired, reserved, sliced
from tests.domain.kit import NOON, noon
from tests.domain.leases import held, lease, released, revoked


def test_a_lease_that_was_never_granted_has_fence_nought_and_no_holder() -> None:
    assert Vacant(version=0, fence=0, last=None) == VACANT
    assert holder_of(VACANT) is None


@pytest.mark.origin("B2")
def test_a_grant_says_all_that_its_lease_is() -> None:
    assert Held(
        version=1, fence=1, worker="ada", granted_at=noon(5), ttl_s=30.0, slice_ends_at=noon(95), sliced=False
    ) == lease(granted("ada", at=5, ttl_s=30.0, slice_ends=95))  # fmt: skip


def test_a_reservation_becomes_a_lease_under_the_same_fence() -> None:
    waiting, bound_lease = lease(reserved("ada", token="t1")), lease(reserved("ada"), bound("ada", at=9))

    assert (Reserved(version=1, fence=1, token="t1", worker="ada", lapses_at=noon(120), last=None)) == waiting
    assert isinstance(bound_lease, Held)
    assert (2, 1, noon(9)) == (bound_lease.version, bound_lease.fence, bound_lease.granted_at)


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        (lease_expired(), "lease_expired"),
        (lease_expired(detached=True), "detached"),
        (released("closed"), "closed"),
        (released("parked"), "parked"),
        (released("handed_back"), "handed_back"),
        (revoked(1), "cancelled"),
    ],
    ids=["expired", "detached", "closed", "parked", "handed back", "revoked"],
)
def test_an_ended_lease_remembers_who_held_it_under_which_fence_and_why_it_ended(end: Fact, cause: str) -> None:
    assert Vacant(version=2, fence=1, last=Last(worker="ada", fence=1, cause=cause)) == lease(held(), end)


def test_a_settlement_raises_the_fence_also_of_a_lease_that_nobody_holds() -> None:
    never = lease(revoked(1, worker=None))
    after_expiry = lease(held(), lease_expired(), revoked(2, worker=None))

    assert Vacant(version=1, fence=1, last=None) == never
    assert (2, Last(worker="ada", fence=1, cause="lease_expired")) == (after_expiry.fence, after_expiry.last)


def test_a_slice_marks_the_lease_that_is_held_and_means_nothing_to_one_that_is_not() -> None:
    over = lease(held(), sliced())

    assert isinstance(over, Held)
    assert over.sliced
    assert Vacant(version=1) == lease(sliced())
    assert not getattr(lease(held(), sliced(), lease_expired(), held(2)), "sliced", True)


@pytest.mark.origin("B2", "D43")
def test_a_mark_is_live_until_its_deadline_and_over_at_it() -> None:
    mark = LeaseMark(fence=1, deadline=NOON.mono + 60, renewed_at=noon())

    assert mark.live(NOON.after(59.999))
    assert not mark.live(NOON.after(60))


@pytest.mark.origin("K14", "H3")
@pytest.mark.parametrize("wall", [noon(-86_400), noon(86_400)])
def test_a_mark_does_not_ask_the_wall_clock(wall: datetime) -> None:
    mark = LeaseMark(fence=1, deadline=NOON.mono + 60, renewed_at=noon())

    assert mark.live(Moment(wall, NOON.mono + 59.999))
    assert not mark.live(Moment(wall, NOON.mono + 60))


def test_a_shortened_mark_still_knows_its_full_deadline() -> None:
    mark = LeaseMark(fence=1, deadline=10.0, renewed_at=noon(), detached=True, full_deadline=60.0)

    assert 60.0 == mark.ttl_deadline
    assert 10.0 == LeaseMark(fence=1, deadline=10.0, renewed_at=noon()).ttl_deadline
