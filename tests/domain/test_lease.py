"""The lease: what each fact makes of it, and what a worker is told when its fence gives no right."""

from datetime import datetime

import pytest

from domain.decider import fold
from domain.fencing import LATE_CAUSES, fence_lost, is_late, why_lost
from domain.lease import (
    VACANT,
    FenceLost,
    Held,
    Last,
    Lease,
    LeaseFact,
    LeaseMark,
    LeaseReleased,
    LeaseRevoked,
    Reserved,
    Vacant,
    evolve,
    holder_of,
)
from domain.values import Fact, Moment
from tests.domain.facts import bound, granted, lapsed, lease_expired, reserved, sliced, unreserved
from tests.domain.kit import NOON, noon


def lease(*facts: Fact | list[Fact]) -> Lease:
    flat = [fact for each in facts for fact in (each if isinstance(each, list) else [each])]
    initial: Lease = VACANT
    return fold(evolve, initial, [fact for fact in flat if isinstance(fact, LeaseFact)])


def held(fence: int = 1) -> list[Fact]:
    return granted("ada", fence)


def revoked(fence: int, worker: str | None = "ada") -> LeaseRevoked:
    return LeaseRevoked(fence=fence, worker=worker, cause="cancelled")


def released(cause: str) -> LeaseReleased:
    return LeaseReleased(fence=1, worker="ada", cause=cause)  # type: ignore[arg-type]


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


def test_a_reservation_that_ended_is_remembered_as_one() -> None:
    assert "reservation_cancelled" == why_lost(lease(reserved(), unreserved()), 1)
    assert "reservation_lapsed" == why_lost(lease(reserved(), lapsed()), 1)


def test_a_settlement_raises_the_fence_also_of_a_lease_that_nobody_holds() -> None:
    never = lease(revoked(1, worker=None))
    after_expiry = lease(held(), lease_expired(), revoked(2, worker=None))

    assert Vacant(version=1, fence=1, last=None) == never
    assert (2, "lease_expired") == (after_expiry.fence, why_lost(after_expiry, 1))


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


@pytest.mark.origin("B5", "K11", "H1")
@pytest.mark.parametrize(
    ("facts", "presented", "reason"),
    [
        ([held()], 2, "never_granted"),
        ([], 1, "never_granted"),
        ([held()], 1, "other_holder"),
        ([held(), lease_expired()], 1, "lease_expired"),
        ([held(), lease_expired(detached=True)], 1, "detached"),
        ([held(), lease_expired(), held(2)], 1, "lease_expired"),
        ([held(), lease_expired(), held(2), lease_expired(2), held(3)], 1, "taken_over"),
        ([held(), released("handed_back")], 1, "handed_back"),
        ([held(), revoked(2)], 1, "cancelled"),
        ([held(), revoked(2)], 2, "other_holder"),
    ],
    ids=[
        "higher",
        "nothing granted",
        "another's",
        "expired",
        "detached",
        "expired and regranted",
        "long ago",
        "handed back",
        "settled",
        "the fence of the settlement",
    ],
)
def test_a_refused_fence_is_told_why_in_one_word(facts: list[Fact], presented: int, reason: str) -> None:
    assert reason == why_lost(lease(*facts), presented)


@pytest.mark.origin("B15")
def test_the_refusal_of_a_fence_names_the_one_in_force_and_its_holder_in_a_sentence() -> None:
    refusal = fence_lost(lease(held(), lease_expired(), granted("bob", 2)), 1)

    assert {"presented": 1, "current": 2, "holder": "bob", "reason": "lease_expired"} == refusal.fields()
    assert (
        "fence 1 is not the right to act: fence 2 is in force, held by 'bob' (lease_expired)" == str(refusal)
    )  # fmt: skip
    assert isinstance(refusal, FenceLost)


@pytest.mark.parametrize(
    ("facts", "late"),
    [
        ([held(), lease_expired()], True),
        ([held(), lease_expired(detached=True)], True),
        ([held()], False),
        ([held(), released("closed")], False),
        ([held(), released("parked")], False),
        ([held(), revoked(1)], False),
        ([held(), lease_expired(), held(2)], False),
        ([held(), lease_expired(), reserved(fence=2)], False),
        ([held(), lease_expired(), reserved(fence=2), unreserved(2)], False),
        ([held(), lease_expired(), revoked(2, worker=None)], False),
    ],
    ids=["expired", "detached", "held", "closed", "parked", "revoked", "granted", "reserved", "given back", "settled"],
)
def test_only_an_end_by_the_clock_with_nothing_granted_since_leaves_a_late_holder(
    facts: list[Fact], late: bool
) -> None:
    assert late == is_late(lease(*facts), 1)


def test_the_late_causes_are_the_ends_by_a_clock() -> None:
    assert {"lease_expired", "detached"} == LATE_CAUSES
