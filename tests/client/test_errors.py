"""Refusals by their code, silence as silence, and both with everything that was said."""

import pickle
from typing import Any

import pytest

from jackline import errors, wire

LOST = {"code": "fence_lost", "detail": "no", "presented": 1, "current": 2, "holder": "b", "reason": "lease_expired"}


def settled(status: int, body: bytes, headers: dict[str, str] | None = None) -> Any:
    return wire.settle(status, body, headers or {})


def test_a_lost_fence_carries_what_was_presented_and_what_is_in_force() -> None:
    lost = errors.problem(409, LOST)

    assert isinstance(lost, errors.FenceLost)
    assert (1, 2, "b", "lease_expired") == (lost.presented, lost.current, lost.holder, lost.reason)


def test_a_code_that_is_not_known_here_is_a_problem_of_its_statuss_family() -> None:
    assert errors.NotFound is type(errors.problem(404, {"code": "brand_new"}))
    assert errors.Problem is type(errors.problem(409, {"code": "brand_new"}))


def test_an_error_survives_being_sent_to_another_process() -> None:
    lost = pickle.loads(pickle.dumps(errors.problem(409, LOST)))  # noqa: S301 - our own bytes

    assert isinstance(lost, errors.FenceLost)
    assert 2 == lost.current
    unknown = pickle.loads(pickle.dumps(errors.Unknown("no answer", "key-1")))  # noqa: S301 - our own bytes
    assert "key-1" == unknown.idempotency_key


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b'{"code": "outcome_unknown"}'])
def test_an_answer_that_leaves_the_outcome_open_is_unknown_and_never_a_no(status: int, body: bytes) -> None:
    with pytest.raises(errors.Unknown):
        settled(status, body)


def test_a_read_model_that_is_behind_is_an_answer() -> None:
    with pytest.raises(errors.ReadModelBehind):
        settled(504, b'{"code": "read_model_behind"}')


def test_a_success_that_is_not_json_is_garbled() -> None:
    with pytest.raises(errors.Garbled):
        settled(200, b"<html>welcome</html>")


def test_waiting_is_taken_from_the_body_or_else_from_the_header() -> None:
    with pytest.raises(errors.Unknown) as from_body:
        settled(503, b'{"code": "journal_busy", "retry_after_s": 2.5}', {"Retry-After": "3"})
    with pytest.raises(errors.Unknown) as from_header:
        settled(503, b"", {"Retry-After": "3"})

    assert (2.5, 3.0) == (wire.repeat_after_s(from_body.value), wire.repeat_after_s(from_header.value))


def test_a_refusal_is_final() -> None:
    assert wire.repeat_after_s(errors.problem(409, LOST)) is None


def test_not_a_number_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValueError, match="JSON"):
        wire.encode({"payload": float("nan")})
