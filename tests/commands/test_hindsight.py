"""Looking back: after any history, every run is shown at every position as it was shown when that was the present."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import explaining, showing
from domain.refusal import InvalidCommand
from journal.tool_errors import PositionBeyond
from projections.finding import InstantBeyond, meant
from projections.hindsight import AsOf, RunNotYet, as_of, run_at
from projections.stored.faults import InstantBefore
from tests.commands.clockwork import VirtualLoop
from tests.commands.ground import saw, see, standing
from tests.commands.test_ground_histories import Fate
from tests.commands.test_replay import ACTS, Chance
from tests.commands.world import ADMIN, World, opened, plain

STEPS = 40
BESIDE = {"evidence": None, "partial": None}

LONG_AFTER = datetime(2999, 1, 1, tzinfo=UTC)


def live(world: World, run_id: str) -> dict[str, Any]:
    """The run as it is shown now, without what is no fact."""
    return {**plain(showing.show_run(world.desk, ADMIN, run_id)), **BESIDE}


def then(world: World, run_id: str, position: int) -> dict[str, Any]:
    """The run as it was, without what is no fact."""
    place = as_of(world.journal.store, str(position), world.clock().wall)
    shown = plain(run_at(world.journal.store, run_id, place))
    assert position == shown.pop("as_of")["position"]
    return {**shown, **BESIDE}


async def lived(seed: int) -> None:
    async with opened() as world:
        chance, seen = Chance(world, seed, jumps=False), list[tuple[int, str, dict[str, Any]]]()
        for _ in range(STEPS):
            await chance.act(sorted(ACTS))
            seen += [(world.journal.position, run_id, live(world, run_id)) for run_id in chance.runs]
        for position, run_id, shown in seen:
            assert shown == then(world, run_id, position), (seed, position, chance.story)
        for position, run_id, shown in seen[:: max(1, len(seen) // 20)]:
            place = AsOf(position=position, recorded_at=world.clock().wall)
            told = plain(explaining.explain_then(world.desk, run_id, place))
            assert (shown["state"], shown["fence"]) == (told["state"], told["fence"])
            assert all(fact["position"] <= position for fact in told["because"])


async def stood(seed: int) -> None:
    async with opened() as world:
        fate, seen = Fate(world, seed), list[tuple[int, str, dict[str, Any], list[Any]]]()
        await world.worker("w1", slots=100)
        for _ in range(STEPS):
            await fate.act()
            for run_id in fate.runs:
                why = plain(explaining.explain(world.desk, ADMIN, run_id))
                seen.append((world.journal.position, run_id, live(world, run_id), why["workspaces"]))
        for position, run_id, shown, grounds in seen:
            assert shown == then(world, run_id, position), (seed, position, fate.story)
            place = as_of(world.journal.store, str(position), world.clock().wall)
            told = plain(explaining.explain_then(world.desk, run_id, place))["workspaces"]
            assert [_decided(one) for one in grounds] == [_decided(one) for one in told], (seed, position, fate.story)


def _decided(ground: dict[str, Any]) -> dict[str, Any]:
    """A workspace in an explanation without what only the present has."""
    return {name: value for name, value in ground.items() if name not in ("next", "unknown_age_s", "seen_at")}


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_what_a_run_stood_on_at_a_position_is_shown_as_it_was_then(seed: int) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(stood(seed))
    finally:
        loop.close()


async def test_the_past_says_what_was_lost_or_unseen_then_and_what_came_next(world: World) -> None:
    run_id, _, workspace_id = await standing(world)
    at = world.journal.position
    world.go(5)
    await see(world, workspace_id, saw("watch_dropped"))
    unseen = world.journal.position
    world.go(5)
    await see(world, workspace_id, saw("gone", reason="NodeLost"))

    def why(position: int) -> Any:
        place = as_of(world.journal.store, str(position), world.clock().wall)
        return plain(explaining.explain_then(world.desk, run_id, place))

    def topics(position: int) -> list[str]:
        return [fact["topic"] for fact in why(position)["because"]]

    (there,), (blind,), (lost,) = (why(place)["workspaces"] for place in (at, unseen, world.journal.position))
    assert ("running", None, None) == (there["phase"], there["unknown_since"], there["unknown_age_s"])
    assert f"then came workspace.continuity_unknown.v1, at position {unseen}" in there["next"]
    assert ("running", 0.0) == (blind["phase"], blind["unknown_age_s"])
    assert "then came workspace.lost.v1" in blind["next"]
    assert ("lost", "NodeLost") == (lost["phase"], lost["lost"]["reason"])
    assert "nothing has happened to it since." == lost["next"]
    assert "workspace.continuity_unknown.v1" in topics(unseen)
    assert "workspace.lost.v1" in topics(world.journal.position)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(min_value=0, max_value=2**32))
@pytest.mark.origin("H17")
def test_what_is_shown_of_a_position_is_what_was_live_at_it(seed: int) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(lived(seed))
    finally:
        loop.close()


async def test_an_instant_means_the_last_position_that_was_recorded_by_then(world: World) -> None:
    began = world.clock().wall
    for _ in range(9):
        await world.submit()
        world.go(10)
    store, now = world.journal.store, world.clock().wall

    def position(seconds: float) -> int:
        return as_of(store, (began + timedelta(seconds=seconds)).isoformat(), now).position

    assert [1, 1, 2, 5, 9, 9] == [position(seconds) for seconds in (0, 9.999999, 10, 45, 80, 90)]
    with pytest.raises(InstantBefore):
        position(-0.000001)
    with pytest.raises(InstantBeyond):
        position(90.000001)


async def test_where_the_wall_clock_was_set_back_one_of_the_places_is_meant(world: World) -> None:
    for step in (10, 10, -15, 10, 10):
        await world.submit()
        world.clock.set_wall(step)
    store, now = world.journal.store, world.clock().wall
    facts = store.facts_after(0, 99)
    for recorded in facts:
        found = as_of(store, recorded.meta.recorded_at.isoformat(), now + timedelta(days=1))
        follower = store.facts_after(found.position, 1)

        assert found.recorded_at <= recorded.meta.recorded_at
        assert not follower or follower[0].meta.recorded_at > recorded.meta.recorded_at


async def test_a_place_that_is_not_in_the_journal_is_refused(world: World) -> None:
    store, now = world.journal.store, world.clock().wall
    with pytest.raises(InstantBefore, match="it is empty"):
        as_of(store, now.isoformat(), now)
    with pytest.raises(PositionBeyond):
        as_of(store, "1", now)
    await world.submit()
    run_id = await world.submit()
    with pytest.raises(RunNotYet) as refused:
        then(world, run_id, 1)

    assert {"run_id": run_id, "position": 1, "submitted": 2} == refused.value.fields()


@pytest.mark.parametrize(
    "text",
    ["", "0", "00", "-1", "+1", "1.0", "1e3", "9" * 19, "now", "2026-01-01", "2026-01-01T12:00:00", "20260101T120000Z",
     "2026-W01-1T12:00:00Z", "2026-02-30T12:00:00Z", "2026-01-01T24:30:00Z", "0001-01-01T00:00:00+01:00", "1 "],
)  # fmt: skip
def test_what_is_neither_a_position_nor_an_instant_is_refused(text: str) -> None:
    with pytest.raises(InvalidCommand):
        meant(text, LONG_AFTER)


@pytest.mark.parametrize(
    "text",
    ["2026-01-01T12:00:00Z", "2026-01-01t12:00:00z", "2026-01-01 12:00:00Z", "2026-01-01T13:00:00+01:00",
     "2026-01-01T13:00:00 01:00", "2026-01-01T06:30:00-05:30", "2026-01-01T12:00:00.000Z"],
)  # fmt: skip
def test_an_instant_may_be_written_as_people_and_queries_write_it(text: str) -> None:
    found = meant(text, LONG_AFTER)

    assert not isinstance(found, int)
    assert "2026-01-01T12:00:00+00:00" == found.isoformat()
