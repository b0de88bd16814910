"""Failures become problem documents from one table, and only what was meant for the caller gets out."""

from collections.abc import Iterator

import pytest

from api.problems import STATUS, Booting, MethodNotAllowed, Unauthenticated, problem_of
from domain.lease import FenceLost, LeaseHeld
from domain.refusal import Refusal
from journal.errors import JournalBusy, JournalDamaged, OutcomeUnknown, Unavailable


def kinds(base: type[Exception]) -> Iterator[type[Exception]]:
    for kind in base.__subclasses__():
        if not kind.__module__.startswith("tests."):
            yield kind
            yield from kinds(kind)


def test_every_refusal_has_a_status() -> None:
    codes = {kind.code for kind in kinds(Refusal)}  # type: ignore[attr-defined]

    assert set() == codes - set(STATUS)


def test_every_unavailability_that_a_command_can_meet_has_a_status() -> None:
    codes = {kind.code for kind in kinds(Unavailable)}  # type: ignore[attr-defined]

    assert set() == codes - set(STATUS)


def test_a_refusal_carries_its_own_fields_beside_the_common_members() -> None:
    problem = problem_of(FenceLost(presented=1, current=2, holder="ada", reason="taken_over"))

    assert {
        "type": "urn:jackline:problem:fence_lost",
        "title": "Fence lost",
        "status": 409,
        "code": "fence_lost",
        "detail": "fence 1 gives no right to act: fence 2 is in force, held by 'ada' (taken_over)",
        "presented": 1,
        "current": 2,
        "holder": "ada",
        "reason": "taken_over",
    } == problem.document


@pytest.mark.parametrize(
    ("error", "status", "seconds"),
    [
        (JournalBusy(10_000), 503, b"1"),
        (OutcomeUnknown("disk full", "c"), 503, b"1"),
        (Booting("replaying the journal"), 503, b"1"),
        (LeaseHeld(holder="ada", fence=1, retry_after_s=41.2), 409, b"42"),
        (LeaseHeld(holder="ada", fence=1, retry_after_s=0.0), 409, b"0"),
    ],
)
def test_where_waiting_helps_the_head_says_how_long_in_whole_seconds(
    error: Exception, status: int, seconds: bytes
) -> None:
    problem = problem_of(error)

    assert status == problem.status
    assert (b"retry-after", seconds) in problem.headers
    assert "retry_after_s" in problem.document


def test_a_method_that_is_not_allowed_says_in_the_head_which_are() -> None:
    assert (b"allow", b"GET, POST") in problem_of(MethodNotAllowed("PUT", ["GET", "POST"])).headers


def test_a_missing_key_asks_for_one_in_the_head() -> None:
    assert (b"www-authenticate", b'Bearer realm="jackline"') in problem_of(Unauthenticated()).headers


@pytest.mark.parametrize("error", [ValueError("a secret"), JournalDamaged("a secret place", "gone"), KeyError("x")])
def test_what_nobody_foresaw_is_answered_without_its_detail(error: Exception) -> None:
    problem = problem_of(error)

    assert (500, "internal") == (problem.status, problem.code)
    assert "secret" not in problem.body.decode()
