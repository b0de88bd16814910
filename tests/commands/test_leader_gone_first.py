"""Leader gone goes before every take-over, and is due at the very end of the grace."""

from typing import Any

import pytest

from commands import ending, steering
from domain.handing import Park
from domain.refusal import SettledOtherwise
from tests.commands.absent import GRACE_S, connected
from tests.commands.world import ADMIN, World, text


@pytest.mark.origin("A9", "A10")
async def test_a_grace_is_over_at_its_very_end_though_a_float_falls_short_of_it(world: World) -> None:
    world.go(9.3859586774234)
    async with connected(world):
        run_id = await world.submit(leader_id="ada")
    since = world.clock().mono
    world.go(GRACE_S)
    assert world.clock().mono - since < GRACE_S
    await world.keep()

    assert "cancelled" == world.state(run_id)


@pytest.mark.origin("A9", "A10")
@pytest.mark.parametrize("road", ["by id", "by queue"])
async def test_leader_gone_goes_before_a_take_over_though_the_claim_comes_before_the_loop(
    world: World, road: str
) -> None:
    async with connected(world):
        run_id, _ = await world.held("w1", ttl=GRACE_S, leader_id="ada") if road == "by id" else ("", 0)
        run_id = run_id or await world.submit(leader_id="ada")
        await world.worker("w2")
    world.go(GRACE_S)
    if road == "by id":
        assert isinstance(await world.refused_or(world.claim_run(run_id, "w2")), SettledOtherwise)
    else:
        assert [] == await world.claim("w2")

    shown = await world.show(run_id)
    assert ("cancelled", "leader_gone") == (shown["state"], shown["reason"])
    assert 0 == shown["failed_attempts"]
    assert "LeaseExpired" not in world.names(run_id)


@pytest.mark.parametrize("given", ["answer", "resume"])
async def test_leader_gone_goes_before_an_answer_that_comes_after_the_grace(world: World, given: str) -> None:
    async with connected(world):
        run_id, fence = await world.held("w1", ttl=GRACE_S, leader_id="ada")
        kind: Any = "waiting_input" if given == "answer" else "waiting_takeover"
        await ending.park(world.desk, ADMIN, run_id, fence, Park(kind=kind, keep_lease=True))
    world.go(GRACE_S)
    doing = (
        steering.answer(world.desk, ADMIN, run_id, text("yes"))
        if given == "answer"
        else steering.resume(world.desk, ADMIN, run_id)
    )

    assert isinstance(await world.refused_or(doing), SettledOtherwise)
    assert ("cancelled", "leader_gone") == ((await world.show(run_id))["state"], (await world.show(run_id))["reason"])
