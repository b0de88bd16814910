"""A heartbeat session: over exactly when its ttl has run out unheard, and looked at again whenever it was heard."""

import pytest

from commands import presence
from policies import end_sessions
from tests.commands.absent import session
from tests.commands.world import ADMIN, World
from tests.policies.kit import reminder, scene, stale, told

SESSION = (ADMIN.tenant, "ada", "s1")


def reaction(world: World, subject: tuple[str, ...] = SESSION) -> object:
    """What the promise answers about the session when it is looked at now."""
    return told(end_sessions.react(stale(world, "session", subject, ""), scene(world)))


async def test_a_session_is_ended_exactly_when_its_ttl_has_run_out_and_not_before(world: World) -> None:
    await session(world, ttl_s=15)
    assert 1015 == reminder(world, "session").mono
    world.go(14.999)
    assert 1015 == reaction(world)
    world.go(0.001)

    assert "end_session" == reaction(world)


@pytest.mark.origin("R26")
async def test_a_session_that_was_heard_again_is_looked_at_again_at_its_new_end(world: World) -> None:
    await session(world, ttl_s=15)
    old = reminder(world, "session")
    world.go(10)
    await session(world, ttl_s=15)
    world.go(5)

    assert 1025 == told(end_sessions.react(old, scene(world)))


async def test_a_session_that_was_heard_with_a_shorter_ttl_ends_at_the_shorter_one(world: World) -> None:
    await session(world, ttl_s=100)
    world.go(10)
    await session(world, ttl_s=15)
    assert 1025 == reminder(world, "session").mono
    world.go(15)

    assert "end_session" == reaction(world)


@pytest.mark.origin("R26")
async def test_a_reminder_of_a_session_that_left_is_nothing(world: World) -> None:
    await session(world, ttl_s=15)
    old = reminder(world, "session")
    await presence.leave_session(world.desk, ADMIN, "ada", "s1")
    world.go(15)

    assert None is told(end_sessions.react(old, scene(world)))


@pytest.mark.origin("A10", "R2", "R26")
async def test_a_reminder_of_a_session_that_left_and_came_back_waits_for_the_one_that_is_there(world: World) -> None:
    await session(world, ttl_s=15)
    old = reminder(world, "session")
    await presence.leave_session(world.desk, ADMIN, "ada", "s1")
    world.go(10)
    await session(world, ttl_s=15)
    world.go(5)

    assert 1025 == told(end_sessions.react(old, scene(world)))


async def test_two_sessions_of_one_leader_end_each_by_itself(world: World) -> None:
    await session(world, "s1", ttl_s=15)
    await session(world, "s2", ttl_s=60)
    world.go(15)

    assert "end_session" == reaction(world)
    assert 1060 == reaction(world, (ADMIN.tenant, "ada", "s2"))


async def test_a_session_of_the_same_name_of_another_leader_is_another_session(world: World) -> None:
    await session(world, ttl_s=15)
    world.go(15)

    assert None is reaction(world, (ADMIN.tenant, "bob", "s1"))
