"""What a handler's run stands on, and its turns, against a real service, real directories and real processes."""

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from jackline import HeldRun, NotDelivered
from jackline.errors import TurnOver
from jackline.workspaces.contract import Observation
from jackline.workspaces.process import ProcessIdentity
from tests.client.serving import Service
from tests.client.test_handlers import handled, working
from tests.waiting import BOUND_S, eventually

pytestmark = pytest.mark.system

WITHIN_S = BOUND_S


async def test_a_directory_lasts_as_long_as_its_block(shared: Service, queue: str, tmp_path: Path) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace("directory", root=tmp_path / "places") as place:
            assert place.path is not None
            (place.path / "file").touch()
            inside = await run.client.workspaces.show(place.workspace_id)
        outside = await run.client.workspaces.show(place.workspace_id)
        facts = [fact async for fact in run.client.facts(run.run_id) if fact.topic == "workspace.released.v1"]
        by_itself = [(fact.data["by"] == run.worker_id, fact.data["cause"]) for fact in facts]
        return [inside.phase, outside.phase, place.path.exists(), by_itself]

    run, _ = await handled(shared, queue, handler)

    by_itself = [[True, "left_by_its_worker"]]
    assert ("succeeded", ["running", "destroyed", False, by_itself]) == (run.state, run.result)


async def test_a_directory_that_is_deleted_inside_its_block_loses_the_run(
    shared: Service, queue: str, tmp_path: Path
) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace("directory", root=tmp_path / "places") as place:
            assert place.path is not None
            shutil.rmtree(place.path)
            await asyncio.Event().wait()  # until it is cancelled

    run, worker = await handled(shared, queue, handler)

    assert ("lost", "workspace_lost", "DirectoryDeleted") == (run.state, run.reason, run.error["reason"])
    assert 1 == worker.log.counts["claim_lost_before_finish"]


async def test_a_handler_that_fails_because_its_directory_went_does_not_decide_over_the_loss(
    shared: Service, queue: str, tmp_path: Path
) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace("directory", root=tmp_path) as place:
            assert place.path is not None
            shutil.rmtree(place.path)
            (place.path / "file").touch()

    run, _ = await handled(shared, queue, handler)

    assert ("lost", "DirectoryDeleted") == (run.state, run.error["reason"])


async def test_a_directory_that_is_kept_outlives_its_block(shared: Service, queue: str, tmp_path: Path) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace("directory", root=tmp_path, keep=True) as place:
            return str(place.path)

    run, _ = await handled(shared, queue, handler)

    assert Path(run.result).is_dir()
    assert "running" == run.workspaces[0].phase


async def test_a_directory_without_a_place_to_be_made_in_is_refused(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace("directory"):
            return None

    run, _ = await handled(shared, queue, handler)

    assert ("failed", "ValueError") == (run.state, run.error["code"])


@pytest.mark.origin("R13", "R18")
async def test_a_process_that_cannot_be_started_faults_the_attempt(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace("process", {"command": ["/no/such/program"]}):
            return None

    async with working(shared, queue, handler) as (client, _):
        receipt = await client.submit(queue=queue, policy={"max_attempts": 1})
        run = await client.wait(receipt.run_id, WITHIN_S)

    assert "aborted" == run.state
    assert ["provision_failed"] == [one.phase for one in run.workspaces]


@pytest.mark.origin("R13")
async def test_a_process_that_ended_by_itself_is_the_handlers_to_judge(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace("process", {"command": ["sh", "-c", "exit 3"]}) as server:
            await asyncio.wait_for(server.over.wait(), WITHIN_S)
            return server.loss

    run, _ = await handled(shared, queue, handler)

    assert "succeeded" == run.state
    assert ("ProcessExited", 3) == (run.result["reason"], run.result["exit_code"])
    assert "lost" == run.workspaces[0].phase


async def test_a_process_is_ended_with_its_block(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace("process", {"command": ["sleep", "600"]}) as server:
            identity = ProcessIdentity.of(server.identity or "")
            assert identity is not None
            os.kill(identity.pid, 0)
        with pytest.raises(ProcessLookupError):
            os.kill(identity.pid, signal.SIGKILL)
        return (await run.client.workspaces.show(server.workspace_id)).phase

    run, _ = await handled(shared, queue, handler)

    assert ("succeeded", "destroyed") == (run.state, run.result)


@pytest.mark.origin("C20", "C21", "C22", "R15", "R16")
async def test_a_restart_of_the_harness_fails_a_waiting_turn_and_cuts_a_busy_one(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace() as body:
            waiting, busy = await run.turn(body.workspace_id), await run.turn(body.workspace_id)
            await waiting.delivered()
            await busy.delivered()
            await busy.moved("busy")
            restarted = Observation("harness_restarted", incarnation=1, reason="OOMKilled", exit_code=137)
            await body.observe([restarted])
            await asyncio.wait_for(asyncio.gather(waiting.over.wait(), busy.over.wait()), WITHIN_S)
            assert waiting.ending is not None
            assert busy.ending is not None
            with pytest.raises(TurnOver):
                await busy.completed()
            return [waiting.ending.state, waiting.ending.code, waiting.ending.message, busy.ending.state]

    run, _ = await handled(shared, queue, handler)

    assert ("succeeded", ["failed", "memory_limit", "memory limit", "cut"]) == (run.state, run.result)


@pytest.mark.origin("C26", "C23")
async def test_a_prompt_that_did_not_arrive_is_sent_again_and_one_that_may_have_is_not(
    shared: Service, queue: str
) -> None:
    tried: list[str] = []

    async def handler(run: HeldRun) -> Any:
        async with run.workspace() as body:

            async def starting() -> int | None:
                tried.append("starting")
                if len(tried) < 3:
                    raise NotDelivered
                return 0

            async def broken() -> None:
                tried.append("broken")
                msg = "the line broke off"
                raise OSError(msg)

            turn = await run.turn(body.workspace_id)
            await turn.deliver(starting)
            other = await run.turn(body.workspace_id)
            with pytest.raises(OSError, match="the line broke off"):
                await other.deliver(broken)
            return [turn.info.state, other.info.state]

    run, _ = await handled(shared, queue, handler)

    assert ("succeeded", ["waiting", "admitted"]) == (run.state, run.result)
    assert ["starting", "starting", "starting", "broken"] == tried


@pytest.mark.origin("C26", "C23")
async def test_a_prompt_is_sent_until_the_window_has_passed_and_no_longer(own_service: Service) -> None:
    own_service.settings["JACKLINE_ADMISSION_S"] = "0.5"
    own_service.start()

    async def handler(run: HeldRun) -> Any:
        async def refused() -> int | None:
            raise NotDelivered

        turn = await run.turn()
        with pytest.raises(TurnOver):
            await turn.deliver(refused)
        return turn.over.is_set() and turn.ending is not None and turn.ending.state

    run, _ = await handled(own_service, "q", handler)

    assert ("succeeded", "failed") == (run.state, run.result)


@pytest.mark.origin("C27")
async def test_a_turn_is_completed_once_and_noticed(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        turn = await run.turn()
        await turn.delivered()
        await turn.noticed("conversation_new")
        await turn.completed()
        await turn.completed()
        return [turn.number, turn.over.is_set(), turn.info.state]

    run, _ = await handled(shared, queue, handler)

    assert ("succeeded", [1, True, "completed"]) == (run.state, run.result)


@pytest.mark.origin("R17")
async def test_what_the_service_says_comes_in_the_order_in_which_it_was_said(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.workspace() as body:
            turn = await run.turn(body.workspace_id)
            await turn.delivered()
            await body.observe([Observation("harness_restarted", incarnation=1, reason="Error", exit_code=1)])
            async for instruction in run.told():
                return [instruction.kind, instruction.data["turn"], instruction.data["message"]]

    run, _ = await handled(shared, queue, handler)

    assert ["turn_failed", 1, "Turn lost (Harness restarted: Error, exit 1)"] == run.result


@pytest.mark.origin("K5", "C9", "C13")
async def test_what_a_handler_stands_on_is_seen_again_after_a_restart_of_the_service(
    own_service: Service, tmp_path: Path
) -> None:
    own_service.start()
    standing, unknown, seen_again = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(run: HeldRun) -> Any:
        async with (
            run.workspace("directory", root=tmp_path / "places") as place,
            run.workspace("process", {"command": ["sleep", "60"]}) as server,
        ):
            standing.set()
            await unknown.wait()

            async def none_is_unknown() -> bool:
                found = [await run.client.workspaces.show(one.workspace_id) for one in (place, server)]
                return all(one.unknown_since is None for one in found)

            await eventually(none_is_unknown, what="both are seen again", within_s=WITHIN_S)
            seen_again.set()

    async with working(own_service, "q", handler) as (client, _):
        receipt = await client.submit(queue="q", policy={"total_after_s": 0})
        await asyncio.wait_for(standing.wait(), WITHIN_S)
        own_service.kill()
        await asyncio.to_thread(own_service.start)
        unknown.set()
        run = await client.wait(receipt.run_id, WITHIN_S)
        topics = [fact.topic async for fact in client.facts(run.run_id)]

    assert "succeeded" == run.state, run.error
    assert seen_again.is_set()
    assert [2, 2] == [topics.count(f"workspace.continuity_{one}.v1") for one in ("unknown", "restored")]
