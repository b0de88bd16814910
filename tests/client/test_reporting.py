"""What a worker says about the ground under its runs, while the service comes and goes."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from jackline import AsyncClient, LeaseRef, Retry
from jackline.clock import SYSTEM
from jackline.worker import reporting
from jackline.worker.log import Log
from jackline.worker.reporting import Reports, assert_until_over, spread
from jackline.workspaces.contract import MESSAGE_MAX, Observation
from tests.client.serving import Service
from tests.waiting import eventually

pytestmark = pytest.mark.system


@pytest.mark.origin("H16")
@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 240.0), (0.5, 300.0), (1.0, 360.0)])
def test_assertions_are_spread_by_a_fifth_to_both_sides(chance: float, seconds: float) -> None:
    assert seconds == pytest.approx(spread(300.0, replace(SYSTEM, chance=lambda: chance)))


@pytest.mark.origin("C16")
async def test_an_assertion_that_nobody_answers_is_tried_again_until_the_run_has_ended(
    own_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "ASSERT_AGAIN_S", 0.2)
    own_service.settings["JACKLINE_ASSERT_EVERY_S"] = "0.5"
    own_service.start()
    log, retry = Log(lambda name, values: None), Retry(patience_s=0.1)
    async with AsyncClient(data_dir=own_service.data_dir, retry=retry) as client:
        workspace_id = await placed(client)
        asserting = asyncio.create_task(assert_until_over(client, workspace_id, log))
        await asyncio.to_thread(own_service.kill)

        async def unheard() -> bool:
            return log.counts["assertion_unheard"] >= 2

        await eventually(unheard, what="assertions were not heard")
        await asyncio.to_thread(own_service.start)
        await client.workspaces.observe(workspace_id, [Observation("gone")])
        code = await asyncio.wait_for(asserting, 20)

    assert "run_settled" == code


async def test_what_was_seen_while_the_service_was_away_is_heard_in_order(own_service: Service) -> None:
    own_service.start()
    log = Log(lambda name, values: None)
    async with AsyncClient(data_dir=own_service.data_dir, retry=Retry(patience_s=0.1)) as client:
        workspace_id = await placed(client)
        reports = Reports(client, log)
        reporting_ = asyncio.create_task(reports.run())
        await asyncio.to_thread(own_service.kill)
        reports.tell(workspace_id, [Observation("watch_dropped", message="x" * (MESSAGE_MAX + 1))])
        reports.tell(workspace_id, [Observation("gone", reason="DirectoryDeleted")])
        reports.tell(workspace_id, [Observation("present")])
        await asyncio.to_thread(own_service.start)
        await asyncio.wait_for(reports.heard(), 30)
        reporting_.cancel()
        shown: Any = await client.workspaces.show(workspace_id)

    assert ("lost", "DirectoryDeleted") == (shown.phase, shown.reason)
    assert 1 == log.counts["observation_refused"]


async def placed(client: AsyncClient) -> str:
    """A running external workspace of a run that is held."""
    await client.register_worker("w", slots=1)
    receipt = await client.submit({}, policy={"lease_ttl_s": 600.0})
    claim = await client.claim_run(receipt.run_id, "w")
    made = await client.workspaces.place(LeaseRef(claim.run_id, claim.fence))
    await client.workspaces.observe(made.workspace_id, [Observation("present")])
    return made.workspace_id
