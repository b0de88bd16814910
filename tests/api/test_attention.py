"""The clock stands still while nobody looks at it, and never goes back."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from api.attention import LOOK_S, STALL_S, AttentiveClock
from domain.values import Moment
from tests.waiting import eventually

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.mono = 1_000.0

    def __call__(self) -> Moment:
        return Moment(NOON + timedelta(seconds=self.mono), self.mono)


@pytest.mark.parametrize(("away_s", "counted_s"), [(STALL_S, STALL_S), (STALL_S + 0.5, 0.0), (3_600.0, 0.0)])
def test_only_an_absence_beyond_the_bound_is_left_out(away_s: float, counted_s: float) -> None:
    hands = Hands()
    clock = AttentiveClock(hands)
    before = clock()
    hands.mono += away_s

    assert before.mono + counted_s == clock().mono
    hands.mono += 0.25
    assert before.mono + counted_s + 0.25 == clock().mono
    assert away_s - counted_s == clock.absent_s


def test_the_wall_goes_on_meanwhile() -> None:
    hands = Hands()
    clock = AttentiveClock(hands)
    hands.mono += 60

    assert NOON + timedelta(seconds=hands.mono) == clock().wall


def test_several_absences_add_up_and_none_is_counted_twice() -> None:
    hands = Hands()
    clock = AttentiveClock(hands)
    for _ in range(3):
        hands.mono += 10
        clock(), clock()

    assert (1_000.0, 30.0) == (clock().mono, clock.absent_s)


async def test_whoever_looks_often_misses_nothing() -> None:
    hands = Hands()
    clock = AttentiveClock(hands)
    looking = asyncio.ensure_future(clock.look())

    async def passed() -> bool:
        hands.mono += LOOK_S / 10
        return clock._looked >= 1_000 + 3 * STALL_S

    await eventually(passed, what="time passes")
    looking.cancel()

    assert 0.0 == clock.absent_s
