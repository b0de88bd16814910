"""A loss that its holder is still asked about is decided whenever its lease ends, however that comes."""

import pytest

from tests.commands.absent import GRACE_S, dropped
from tests.commands.ground import placed, saw, see, standing
from tests.commands.world import World


@pytest.mark.parametrize(
    ("on_workspace_lost", "becomes"), [("settle_lost", "lost"), ("retry_fresh", "paused"), ("park", "paused")]
)
@pytest.mark.parametrize("first", ["loss", "absence"])
async def test_a_loss_and_a_leader_that_is_gone_come_to_the_same_in_either_order(
    world: World, on_workspace_lost: str, becomes: str, first: str
) -> None:
    exited = saw("ended", reason="ProcessExited", exit_code=1)
    await dropped(world)
    run_id, _, workspace_id = await standing(
        world, leader_id="ada", ttl=3600, on_leader_gone="park", on_workspace_lost=on_workspace_lost
    )
    if first == "loss":
        await see(world, workspace_id, exited)
    assert "running" == world.state(run_id)
    await dropped(world)
    await world.later(GRACE_S)
    if first == "absence":
        await see(world, workspace_id, exited)

    assert becomes == world.state(run_id)


@pytest.mark.parametrize(
    ("on_workspace_lost", "becomes"), [("settle_lost", "lost"), ("retry_fresh", "queued"), ("park", "waiting_takeover")]
)
async def test_a_pending_loss_is_decided_when_another_body_faults_under_the_same_lease(
    world: World, on_workspace_lost: str, becomes: str
) -> None:
    run_id, fence, workspace_id = await standing(world, ttl=3600, on_workspace_lost=on_workspace_lost)
    other = await placed(world, run_id, fence)
    await see(world, workspace_id, saw("ended", reason="ProcessExited", exit_code=1))
    await see(world, other, saw("gone"))

    assert (becomes, "workspace_lost") == (world.state(run_id), (await world.show(run_id))["reason"])
