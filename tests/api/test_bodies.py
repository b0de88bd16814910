"""Bodies are bounded while they arrive, mean the same to everybody, and keep what is the caller's as it came."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field, ValidationError
from starlette.types import Message

from api.bodies import (
    DISCARD_BYTES,
    MAX_DEPTH,
    BodyCut,
    BodyUnread,
    Reader,
    canonical_digest,
    parsed,
    problems_in,
    receive_body,
)
from api.problems import BodyTooLarge, InvalidBody, Malformed, TooDeep
from api.requests import Close, CloseMany, Heartbeat, Submit, SubmitBatch
from domain.values import NULL
from tests.api.service import Service

LIMIT = 100


class Arriving:
    """A body that arrives in parts, and how many were taken."""

    def __init__(self, *parts: bytes, cut: bool = False) -> None:
        self.taken = 0
        last = len(parts) - 1
        self.messages: list[Message] = [
            {"type": "http.request", "body": part, "more_body": cut or number < last}
            for number, part in enumerate(parts)
        ]
        self.messages.append({"type": "http.disconnect"})

    async def __call__(self) -> Message:
        self.taken += 1
        return self.messages[self.taken - 1]


def received(arriving: Arriving, declared: int | None = None) -> bytes:
    return asyncio.run(receive_body(arriving, declared, LIMIT))


def test_a_body_in_parts_is_put_together() -> None:
    assert b"abcdef" == received(Arriving(b"ab", b"", b"cd", b"ef"))


@pytest.mark.parametrize("parts", [(b"x" * LIMIT,), (b"x" * 60, b"x" * 40)])
def test_a_body_of_exactly_the_bound_is_taken(parts: tuple[bytes, ...]) -> None:
    assert LIMIT == len(received(Arriving(*parts)))


@pytest.mark.parametrize("parts", [(b"x" * (LIMIT + 1),), (b"x" * 60, b"x" * 41)])
def test_one_byte_beyond_the_bound_is_refused_however_it_arrives(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(BodyTooLarge) as refused:
        received(Arriving(*parts))

    assert LIMIT == refused.value.limit


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_kept() -> None:
    with pytest.raises(BodyTooLarge):
        received(Arriving(b"x", b"y", b"z"), declared=LIMIT + 1)


def test_an_endless_body_is_left_unread_after_a_bound() -> None:
    arriving = Arriving(*[b"x" * DISCARD_BYTES] * 6)

    with pytest.raises(BodyUnread):
        received(arriving)

    assert arriving.taken < 6


def test_a_command_whose_client_left_in_the_middle_is_not_carried_out() -> None:
    with pytest.raises(BodyCut):
        received(Arriving(b'{"keep_', cut=True))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nope",
        b'{"a": 1} trailing',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": "\\ud800"}',
        b'{"a": "\\udc00\\ud800"}',
        b'{"a": "tab\there"}',
        b'{"a": "nul\x00"}',
        b'{"a": 01}',
        b'{"a": [1,]}',
        b"\xef\xbb\xbf{}",
        b"{'a': 1}",
    ],
)
def test_a_body_that_two_readers_could_read_differently_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        parsed(body)


def test_a_number_that_no_double_holds_is_malformed_inside_the_callers_own_json() -> None:
    with pytest.raises(Malformed):
        Reader(Submit).read(b'{"payload": [1e400]}')


def test_nesting_is_taken_at_its_bound_and_refused_beyond() -> None:
    assert parsed(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)

    for beyond in (b"[" * 250 + b"]" * 250, b"[" * 1_000_000, b'{"a":' * 100_000):
        with pytest.raises(TooDeep):
            parsed(beyond)


def test_the_callers_json_is_kept_as_the_very_bytes_that_arrived() -> None:
    payload = b'{"price": 1.10, "id": 123456789012345678901234567890, "note":\n "\\u00e9"}'

    body, _ = Reader(Submit).read(b'{"queue": "q", "payload": ' + payload + b"}")

    assert payload == bytes(body.payload)


def test_json_that_was_left_out_and_json_that_is_null_are_the_same() -> None:
    absent, _ = Reader(Close).read(b'{"outcome": "failed"}')
    null, _ = Reader(Close).read(b'{"outcome": "failed", "error": null}')

    assert NULL == absent.error == null.error


def test_the_callers_json_is_kept_for_each_of_many() -> None:
    closes = b'{"closes": [{"run_id":"a","outcome":"failed","error":1.0},{"run_id":"b","outcome":"succeeded"}]}'

    body, _ = Reader(CloseMany).read(closes)

    assert [b"1.0", b"null"] == [bytes(close.error) for close in body.closes]


@pytest.mark.parametrize(
    ("model", "body", "field", "limit"),
    [
        (Submit, b"[]", "", "an object"),
        (Submit, b'{"qeue": "q"}', "qeue", "left out: no such field is known here"),
        (Submit, b'{"policy": {"max_atempts": 1}}', "policy.max_atempts", "left out: no such field is known here"),
        (Submit, b'{"priority": "3"}', "priority", "a valid integer"),
        (Submit, b'{"priority": true}', "priority", "a valid integer"),
        (Submit, b'{"tags": {"a": 1}}', "tags.a", "a valid string"),
        (Submit, b'{"run_after": 5}', "run_after", "an instant as text (RFC 3339)"),
        (Submit, b'{"run_after": "2030-01-01T00:00:00"}', "run_after", None),
        (Submit, b'{"run_after": "9999-12-31T23:59:59-14:00"}', "run_after", None),
        (Close, b"{}", "outcome", "given"),
        (Close, b'{"outcome": "lost"}', "outcome", "'succeeded' or 'failed'"),
        (CloseMany, b'{"closes": [{"run_id": "a", "outcome": "failed", "x": 1}]}', "closes.0.x", None),
        (CloseMany, b'{"closes": []}', "closes", None),
        (SubmitBatch, b'{"runs": [{}, {"queue": 7}]}', "runs.1.queue", "a valid string"),
        (Heartbeat, b'{"leases": [{"run_id": "a", "fence": 1, "ttl": 3}]}', "leases.0.ttl", None),
        (Heartbeat, b'{"leases": [{"run_id": "a", "fence": 9007199254740992}]}', "leases.0.fence", None),
    ],
)
def test_what_is_wrong_is_named_by_its_path(model: Any, body: bytes, field: str, limit: str | None) -> None:
    with pytest.raises(InvalidBody) as refused:
        Reader(model).read(body)

    assert field == refused.value.field
    assert limit is None or limit == refused.value.limit


def test_every_field_that_is_wrong_is_named_up_to_a_bound() -> None:
    with pytest.raises(InvalidBody) as refused:
        Reader(Submit).read(msgspec.json.encode({f"unknown_{number}": 1 for number in range(100)}))

    assert 20 == len(refused.value.errors)


def test_an_instant_with_an_offset_is_taken_and_kept_in_utc() -> None:
    body, _ = Reader(Submit).read(b'{"run_after": "2030-01-01T02:00:00+02:00"}')

    assert datetime(2030, 1, 1, tzinfo=UTC) == body.run_after
    assert UTC is getattr(body.run_after, "tzinfo", None)


def test_two_bodies_say_the_same_however_their_keys_are_ordered_and_spaced() -> None:
    one, other = parsed(b'{"a": 1, "b": [1, {"c": 2, "d": 3}]}'), parsed(b'{"b":[1,{"d":3,"c":2}],"a":1}')

    assert canonical_digest(one) == canonical_digest(other)
    assert canonical_digest(one) != canonical_digest(parsed(b'{"a": 2, "b": [1, {"c": 2, "d": 3}]}'))


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"observations": []}, "observations must be a list of at least 1 item, not 0"),
        ({"observations": [{"kind": "gone"}] * 1001}, "observations must be a list of at most 1000 items, not 1001"),
        ({"observations": 5}, "observations must be a valid list"),
    ],
)
async def test_what_is_wrong_with_a_body_is_said_in_a_sentence(service: Service, body: Any, detail: str) -> None:
    refused = await service.refused("POST", "/v1/workspaces/none/observations", body)

    assert ("invalid", detail) == (refused["code"], refused["detail"].removesuffix("."))


def test_a_text_that_is_too_short_is_said_in_a_sentence() -> None:
    class Named(BaseModel):
        name: str = Field(min_length=1)

    with pytest.raises(ValidationError) as wrong:
        Named(name="")

    assert [{"field": "name", "limit": "a string of at least 1 character"}] == problems_in(wrong.value)


def test_a_malformed_body_is_told_of_without_breaking_a_word_of_capitals() -> None:
    with pytest.raises(Malformed) as cut:
        parsed(b"[1,")
    with pytest.raises(Malformed) as odd:
        parsed(b"[1,]")

    assert "EOF while parsing" in str(cut.value)
    assert "trailing comma" in str(odd.value)
