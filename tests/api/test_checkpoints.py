"""Checkpoints of a running service: written at a clean stop, gone by at the next start, left aside when damaged."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from journal.checkpoints import CHECKPOINT_NAME, read_checkpoint, write_checkpoint
from projections import checkpointing
from projections.live.kept import rules
from tests.api.service import Service, running
from tests.waiting import BOUND_S


async def checkpoints(service: Service) -> dict[str, Any]:
    """What the service says about its checkpoints."""
    health = await service.ok("GET", "/healthz")
    return dict(health["loops"]["checkpoints"])


async def worked(data_dir: Path) -> str:
    """A service that settled some runs, holds one, and was stopped in good order; the run that it holds."""
    async with running(data_dir) as service:
        for _ in range(5):
            run_id = await service.held()
            await service.ok("POST", f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"})
        return await service.held()


async def test_a_clean_stop_leaves_a_checkpoint_and_the_next_start_reads_only_what_is_open(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await worked(data_dir)
    caplog.set_level(logging.INFO, "api.boot")
    async with running(data_dir) as service:
        run = await service.ok("GET", f"/v1/runs/{run_id}")
        said = await checkpoints(service)

    assert ("running", "w1", 1) == (run["state"], run["owner"], run["fence"])
    assert said["ignored_at_start"] is None
    assert (0, 29) == (said["behind"], said["position"])
    assert "replayed 4 of 29 facts" in caplog.text


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\x00" * 400, b'{"format": 99}\nrest'])
async def test_a_damaged_checkpoint_is_said_once_and_costs_nothing_but_time(
    data_dir: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    run_id = await worked(data_dir)
    (data_dir / CHECKPOINT_NAME).write_bytes(content)
    async with running(data_dir) as service:
        run = await service.ok("GET", f"/v1/runs/{run_id}")
        health = await service.ok("GET", "/healthz")
        said = await checkpoints(service)

    assert ("running", "ok") == (run["state"], health["status"])
    assert said["ignored_at_start"]
    assert 1 == caplog.text.count("the whole journal is read instead")
    async with running(data_dir) as service:
        assert (await checkpoints(service))["ignored_at_start"] is None


async def test_a_start_without_a_checkpoint_says_nothing(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    run_id = await worked(data_dir)
    (data_dir / CHECKPOINT_NAME).unlink()
    async with running(data_dir) as service:
        assert "running" == (await service.ok("GET", f"/v1/runs/{run_id}"))["state"]
        assert (await checkpoints(service))["ignored_at_start"] is None
    assert "checkpoint" not in caplog.text


async def test_a_stop_waits_for_the_checkpoint_that_is_being_written(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, entered, released, under_way = write_checkpoint, threading.Event(), threading.Event(), [0]

    def slowly(*given: Any) -> int:
        under_way.append(under_way[-1] + 1)
        entered.set()
        assert released.wait(BOUND_S)
        size = write(*given)
        under_way.append(under_way[-1] - 1)
        return size

    async with running(data_dir) as service:
        following, journal = service.node.checkpoints, service.node.desk.journal
        assert following is not None
        monkeypatch.setattr(checkpointing, "write_checkpoint", slowly)
        await service.submitted()
        given_up = asyncio.ensure_future(following.stop())
        assert await asyncio.to_thread(entered.wait, 10)
        given_up.cancel()
        entered.clear()
        await service.submitted()
        last = asyncio.ensure_future(following.stop())
        assert not await asyncio.to_thread(entered.wait, 0.2)
        released.set()
        await last
        found = read_checkpoint(data_dir / CHECKPOINT_NAME, journal.store, rules())

        assert 1 == max(under_way)
        assert found is not None
        assert journal.position == found.position == following.position


async def test_a_checkpoint_that_cannot_be_written_degrades_nothing_that_runs(data_dir: Path) -> None:
    async with running(data_dir) as service:
        run_id = await service.submitted()
        (data_dir / f"{CHECKPOINT_NAME}.new").mkdir()
        assert service.node.checkpoints is not None
        await service.node.checkpoints.stop()
        health = await service.ok("GET", "/healthz")
        await service.ok("POST", f"/v1/runs/{run_id}/cancel", {})
        (data_dir / f"{CHECKPOINT_NAME}.new").rmdir()
        await service.node.checkpoints.stop()

        assert ("degraded", 1) == (health["status"], health["loops"]["checkpoints"]["errors"])
        assert "checkpoints: after position 0" in health["first_error"]
        assert "ok" == (await service.ok("GET", "/healthz"))["status"]
