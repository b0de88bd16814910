"""Fencing: why a fence gives no right, in one word, and the one right that outlives an end by a clock."""

import pytest

from domain.fencing import LATE_CAUSES, fence_lost, is_late, why_lost
from domain.lease import FenceLost
from domain.values import Fact
from tests.domain.facts import granted, lapsed, lease_expired, reserved, unreserved
from tests.domain.leases import held, lease, released, revoked


def test_a_reservation_that_ended_is_remembered_as_one() -> None:
    assert "reservation_cancelled" == why_lost(lease(reserved(), unreserved()), 1)
    assert "reservation_lapsed" == why_lost(lease(reserved(), lapsed()), 1)


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
        "fence 1 gives no right to act: fence 2 is in force, held by 'bob' (lease_expired)" == str(refusal)
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
