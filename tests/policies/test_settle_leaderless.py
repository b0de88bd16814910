"""A leader's absence: due exactly at the end of its grace, of this absence and no earlier one, run by run."""

import pytest

from policies import settle_leaderless
from tests.commands.absent import GRACE_S, connected, dropped, recorded, session
from tests.commands.world import ADMIN, World
from tests.policies.kit import reminder, scene, stale, told

LEADER = (ADMIN.tenant, "ada")


def reaction(world: World, leader: tuple[str, str] = LEADER) -> object:
    """What the promise answers about the leader when it is looked at now."""
    return told(settle_leaderless.react(stale(world, "leader", leader, ""), scene(world), grace_s=GRACE_S))


async def absent(world: World) -> str:
    """A run whose leader was there and has just dropped, at 1000."""
    run_id = await world.submit(leader_id="ada")
    await dropped(world)
    return run_id


@pytest.mark.origin("A16", "A17")
async def test_a_leader_is_settled_exactly_when_its_grace_is_over_and_not_before(world: World) -> None:
    await absent(world)
    assert 1060 == reminder(world, "leader").mono
    world.go(59.999)
    assert 1060 == reaction(world)
    world.go(0.001)

    assert "settle_leaderless" == reaction(world)


@pytest.mark.origin("A12")
async def test_the_drop_that_leaves_no_connection_arms_the_reminder_and_no_other_drop_does(world: World) -> None:
    await world.submit(leader_id="ada")
    async with connected(world):
        async with connected(world):
            pass
        world.go(1_000)
        assert [] == [due for due in world.desk.live.deadlines.all() if due.kind == "leader"]
        assert None is reaction(world)

    assert 2060 == reminder(world, "leader").mono


@pytest.mark.origin("A10", "R2", "R26")
async def test_a_reminder_of_an_earlier_absence_looks_again_when_the_younger_one_is_due(world: World) -> None:
    await absent(world)
    old = reminder(world, "leader")
    world.go(50)
    await dropped(world)
    world.go(10)
    assert old.mono == world.clock().mono
    assert 1110 == told(settle_leaderless.react(old, scene(world), grace_s=GRACE_S))
    world.go(50)

    assert "settle_leaderless" == reaction(world)


@pytest.mark.origin("A10", "R26")
async def test_a_leader_that_is_back_needs_nothing_however_late_the_reminder_of_its_absence(world: World) -> None:
    await absent(world)
    old = reminder(world, "leader")
    world.go(59)
    async with connected(world):
        world.go(1_000)

        assert None is told(settle_leaderless.react(old, scene(world), grace_s=GRACE_S))


async def test_a_connection_counts_before_its_fact_is_there(world: World) -> None:
    await absent(world)
    world.go(GRACE_S)
    world.desk.evidence.presence.arrive(LEADER, "on-its-way")

    assert None is reaction(world)


async def test_a_session_of_the_leader_is_a_connection_like_any_other(world: World) -> None:
    await absent(world)
    world.go(59)
    await session(world)
    world.go(1)

    assert None is reaction(world)


async def test_each_run_has_its_own_grace_and_the_earliest_is_waited_for(world: World) -> None:
    await absent(world)
    world.go(40)
    await world.submit(leader_id="ada")
    assert 1060 == reaction(world)
    await world.later(20)
    assert 1100 == reaction(world)
    assert 1100 == reminder(world, "leader").mono
    world.go(40)

    assert "settle_leaderless" == reaction(world)


async def test_a_run_under_a_leader_long_absent_has_its_grace_from_its_submission(
    world: World,
) -> None:
    await dropped(world)
    world.go(1_000)
    await world.submit(leader_id="ada")
    assert 2060 == reaction(world)
    world.go(GRACE_S)

    assert "settle_leaderless" == reaction(world)


@pytest.mark.origin("R26")
async def test_a_reminder_of_a_leader_whose_runs_have_all_ended_is_nothing(world: World) -> None:
    run_id, fence = await world.held(leader_id="ada", ttl=600)
    async with connected(world):
        pass
    await recorded(world)
    old = reminder(world, "leader")
    await world.close(run_id, fence)
    world.go(GRACE_S)

    assert None is told(settle_leaderless.react(old, scene(world), grace_s=GRACE_S))


async def test_the_absence_of_one_leader_says_nothing_about_another(world: World) -> None:
    await absent(world)
    await world.submit(leader_id="bob")
    async with connected(world, "bob"):
        world.go(GRACE_S)

        assert "settle_leaderless" == reaction(world)
        assert None is reaction(world, (ADMIN.tenant, "bob"))


async def test_a_leader_of_the_same_name_in_another_tenant_is_another_leader(world: World) -> None:
    await absent(world)
    world.go(GRACE_S)

    assert None is reaction(world, ("elsewhere", "ada"))
