"""Submissions: every limit at the bound and one past it, and ids that cannot be made twice."""

from typing import Any

import pytest

from domain.lease import TTL_MAX_S, TTL_MIN_S
from domain.refusal import InvalidCommand
from domain.submission import (
    DURATION_MAX_S,
    ID_MAX_CHARS,
    LABELS_MAX,
    MAX_ATTEMPTS_MAX,
    NAME_MAX_CHARS,
    PRIORITY_MAX,
    Policy,
    SubmissionMismatch,
    Submit,
    check,
    check_id,
    check_labels,
    check_policy,
    run_id_of,
)


@pytest.mark.origin("B29", "B30")
def test_the_defaults_are_within_their_bounds() -> None:
    check(Submit())

    assert (3, 60.0, None, 10.0, 300.0) == (
        Policy().max_attempts, Policy().lease_ttl_s, Policy().max_hold_s, Policy().retry_base_s, Policy().retry_cap_s,
    )  # fmt: skip


BOUNDS: dict[str, tuple[Any, Any, Any, Any]] = {
    "max_attempts": (0, 1, MAX_ATTEMPTS_MAX, MAX_ATTEMPTS_MAX + 1),
    "lease_ttl_s": (TTL_MIN_S - 0.01, TTL_MIN_S, TTL_MAX_S, TTL_MAX_S + 0.01),
    "max_hold_s": (TTL_MIN_S - 0.01, TTL_MIN_S, DURATION_MAX_S, DURATION_MAX_S + 1),
    "retry_base_s": (-0.01, 0, DURATION_MAX_S, DURATION_MAX_S + 1),
    "retry_cap_s": (-0.01, 0, DURATION_MAX_S, DURATION_MAX_S + 1),
    "quiet_after_s": (-0.01, 0, DURATION_MAX_S, DURATION_MAX_S + 1),
    "total_after_s": (-0.01, 0, DURATION_MAX_S, DURATION_MAX_S + 1),
}
"""One below, the lowest, the highest, one above."""


@pytest.mark.origin("B29", "B30")
@pytest.mark.parametrize("field", BOUNDS)
def test_a_policy_is_taken_at_its_bounds_and_refused_past_them_naming_the_field(field: str) -> None:
    below, lowest, highest, above = BOUNDS[field]

    for value in (lowest, highest):
        check_policy(Policy(**{field: value}))
    for value in (below, above, float("nan"), float("inf"), float("-inf")):
        past: dict[str, Any] = {field: value}
        with pytest.raises(InvalidCommand) as refused:
            check_policy(Policy(**past))
        assert f"policy.{field}" == refused.value.field


def test_every_number_of_a_policy_has_a_bound() -> None:
    numbers = {field for field in Policy.__struct_fields__ if not isinstance(getattr(Policy(), field), str)}

    assert set(BOUNDS) == numbers


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("priority", (-PRIORITY_MAX, PRIORITY_MAX), (-PRIORITY_MAX - 1, PRIORITY_MAX + 1)),
        ("name", (None, "x", "x" * NAME_MAX_CHARS), ("", "x" * (NAME_MAX_CHARS + 1))),
        ("concurrency_key", (None, "x", "x" * NAME_MAX_CHARS), ("", "x" * (NAME_MAX_CHARS + 1))),
        ("queue", ("x", "x" * ID_MAX_CHARS), ("", "x" * (ID_MAX_CHARS + 1), "a/b", "a:b", "ä")),
        ("leader_id", (None, "x", "x" * ID_MAX_CHARS), ("", "x" * (ID_MAX_CHARS + 1), "a b")),
    ],
)
def test_a_submission_is_taken_at_its_bounds_and_refused_past_them_naming_the_field(
    field: str, good: tuple[Any, ...], bad: tuple[Any, ...]
) -> None:
    for value in good:
        check(Submit(**{field: value}))
    for value in bad:
        with pytest.raises(InvalidCommand) as refused:
            check(Submit(**{field: value}))
        assert field == refused.value.field


@pytest.mark.parametrize("field", ["labels", "tags"])
def test_labels_and_tags_are_bounded_in_number_and_in_length(field: str) -> None:
    full = {f"k{n}": "v" for n in range(LABELS_MAX)}
    good = (full, {"k" * NAME_MAX_CHARS: "v" * NAME_MAX_CHARS}, {"k": ""})
    bad = (full | {"one": "more"}, {"": "v"}, {"k" * (NAME_MAX_CHARS + 1): "v"}, {"k": "v" * (NAME_MAX_CHARS + 1)})

    for value in good:
        check_labels(field, value)
    for value in bad:
        with pytest.raises(InvalidCommand):
            check_labels(field, value)


def test_a_refused_value_that_is_too_long_is_not_sent_back_whole() -> None:
    with pytest.raises(InvalidCommand) as refused:
        check_id("queue", "x" * 10_000)

    assert ID_MAX_CHARS + 1 == len(refused.value.value)


@pytest.mark.origin("A34")
def test_a_leaders_verdict_needs_a_leader() -> None:
    by_leader = Policy(verdict_by="leader")

    check(Submit(policy=by_leader, leader_id="lea"))
    with pytest.raises(InvalidCommand) as refused:
        check(Submit(policy=by_leader))
    assert "policy.verdict_by" == refused.value.field


@pytest.mark.origin("D32")
def test_the_backoff_doubles_from_ten_seconds_and_stays_at_its_cap() -> None:
    policy = Policy()

    assert [10, 20, 40, 80, 160, 300, 300] == [policy.backoff_s(n) for n in range(1, 8)]
    assert 300.0 == policy.backoff_s(MAX_ATTEMPTS_MAX)
    assert 10.0 == policy.backoff_s(0)
    assert 0.0 == Policy(retry_base_s=0).backoff_s(MAX_ATTEMPTS_MAX)
    assert 1.0 == Policy(retry_base_s=5, retry_cap_s=1).backoff_s(1)


@pytest.mark.origin("B17")
def test_a_key_names_one_run_of_one_queue_of_one_tenant() -> None:
    ids = {run_id_of("a", "b", "c"), run_id_of("a", "bc", ""), run_id_of("ab", "", "c"), run_id_of("a", "b", "d")}

    assert 4 == len(ids)
    assert run_id_of("a", "b", "c") == run_id_of("a", "b", "c")
    check_id("run_id", run_id_of("a", "b", "ä" * 300))


def test_the_refusal_of_another_body_names_the_key_and_the_run_that_has_it() -> None:
    refusal = SubmissionMismatch(key="k", run_id="r1")

    assert ("idempotency_mismatch", {"key": "k", "run_id": "r1"}) == (refusal.code, refusal.fields())
