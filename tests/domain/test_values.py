"""Values: moments in two scales, JSON that is given back as it came, digests and citations."""

from datetime import timedelta

import pytest

from domain.values import Json, Moment, Value, cite, digest, later, of_json, to_json
from tests.domain.kit import NOON, noon


def test_a_moment_moves_on_both_of_its_scales() -> None:
    assert Moment(noon(1.5), NOON.mono + 1.5) == NOON.after(1.5)


def test_a_deadline_on_the_monotonic_scale_is_shown_to_people_on_the_wall() -> None:
    jumped = Moment(noon(3600), NOON.mono)

    assert noon(60) == NOON.wall_at(NOON.mono + 60)
    assert noon(3660) == jumped.wall_at(NOON.mono + 60)


def test_an_instant_later_is_later_by_that_many_seconds() -> None:
    assert timedelta(seconds=2) == later(noon(), 2) - noon()


def test_json_is_kept_as_the_bytes_that_came() -> None:
    odd = Json(b'{ "b": 1,  "a": [1, 2.50] }')

    assert b'{ "b": 1,  "a": [1, 2.50] }' == bytes(odd)
    assert {"b": 1, "a": [1, 2.5]} == of_json(odd)
    assert b'{"a":1}' == bytes(to_json({"a": 1}))


@pytest.mark.origin("B25")
def test_a_digest_does_not_see_the_order_of_keys_or_blanks_and_sees_everything_else() -> None:
    assert digest(Json(b'{"a":1,"b":{"d":2,"c":3}}')) == digest(Json(b'{ "b": {"c": 3, "d": 2}, "a": 1 }'))

    assert 5 == len({digest(Json(raw)) for raw in (b"1", b'"1"', b"[1]", b"[1,2]", b"[2,1]")})


def test_a_citation_is_the_stream_and_the_version() -> None:
    assert "run-r1@3" == cite("run-r1", 3)


def test_a_value_does_not_change() -> None:
    class Point(Value, frozen=True):
        x: int

    with pytest.raises(AttributeError):
        Point(x=1).x = 2  # type: ignore[misc]
