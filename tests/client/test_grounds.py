"""The directories of one worker, while the service wants them, forgets them, or wants them destroyed."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jackline import AsyncClient, LeaseRef, Retry
from jackline.worker import grounds as grounds_room
from jackline.worker.grounds import Ground, GroundLost, Grounds, GroundUnseen
from jackline.worker.log import Log
from jackline.worker.places import Home
from jackline.workspaces import marks
from jackline.workspaces.models import Workspace
from tests.client.serving import Service
from tests.waiting import eventually

pytestmark = pytest.mark.system


class Bench:
    """A worker's grounds on a real service, without the worker."""

    def __init__(self, client: AsyncClient, home: Home) -> None:
        self.client = client
        self.home = home
        self.log = Log(lambda name, values: None)
        self.grounds = Grounds(client, home, self.log)

    async def claimed(self) -> LeaseRef:
        """A run that is held."""
        worker_id = self.client.transport.clock.new_id()
        await self.client.register_worker(worker_id)
        receipt = await self.client.submit({})
        claim = await self.client.claim_run(receipt.run_id, worker_id)
        return LeaseRef(claim.run_id, claim.fence)

    async def shown(self, ground: Ground) -> Workspace:
        return await self.client.workspaces.show(ground.workspace_id)

    async def becomes(self, ground: Ground, phase: str) -> None:
        """Wait until the service has heard what was done: it is told afterwards."""

        async def once() -> bool:
            return (await self.shown(ground)).phase == phase

        await eventually(once, what=f"the workspace is {phase}", within_s=20)

    async def happened(self, name: str, times: int = 1) -> None:
        async def once() -> bool:
            return self.log.counts[name] >= times

        await eventually(once, what=f"{name} happened", within_s=20)


@asynccontextmanager
async def looking_after(service: Service, place: Path) -> AsyncIterator[Bench]:
    home = Home(place)
    async with AsyncClient(data_dir=service.data_dir, retry=Retry(patience_s=10.0)) as client:
        bench = Bench(client, home)
        running = asyncio.create_task(bench.grounds.run())
        try:
            await bench.grounds.take_up()
            yield bench
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            home.close()


@pytest.fixture
async def bench(shared: Service, tmp_path: Path) -> AsyncIterator[Bench]:
    async with looking_after(shared, tmp_path / "home") as bench:
        yield bench


async def test_the_same_run_stands_on_the_same_directory_until_it_is_lost(bench: Bench) -> None:
    lease = await bench.claimed()
    first = await bench.grounds.stand(lease)
    again = await bench.grounds.stand(lease)
    shutil.rmtree(first.path)
    await bench.happened("workspace_gone")
    await bench.grounds.reports.heard()

    assert first == again
    assert "DirectoryDeleted" == (await bench.shown(first)).reason


@pytest.mark.origin("C3")
async def test_a_directory_that_was_replaced_unseen_is_told_and_not_stood_on(shared: Service, tmp_path: Path) -> None:
    async with looking_after(shared, tmp_path / "home") as bench:
        lease = await bench.claimed()
        ground = await bench.grounds.stand(lease)
    ground.path.rename(tmp_path / "away")
    ground.path.mkdir()
    async with looking_after(shared, tmp_path / "home") as bench:
        shown = await bench.shown(ground)
        assert ("lost", "DirectoryReplaced") == (shown.phase, shown.reason)

        await bench.grounds.take_up()
        assert [True] == [record.settled for record in bench.grounds.provider.records()]
        assert ground.path.is_dir()


async def test_nothing_is_started_on_a_directory_that_cannot_be_seen(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await bench.claimed()
    ground = await bench.grounds.stand(lease)
    bench.grounds._watcher.forget(ground.workspace_id)
    opened = os.open

    def denied(path: str | Path, *words: int, **named: int) -> int:
        if Path(path) == ground.path:
            raise PermissionError(13, "Permission denied")
        return opened(path, *words, **named)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(GroundUnseen):
        await bench.grounds.stand(lease)
    monkeypatch.undo()
    unknown = await bench.shown(ground)

    assert ("running", "watch_dropped") == (unknown.phase, unknown.unknown_cause)
    assert ground == await bench.grounds.stand(lease)
    await bench.grounds.reports.heard()
    assert (await bench.shown(ground)).unknown_since is None


async def test_a_directory_that_was_deleted_unseen_is_the_services_to_decide(bench: Bench) -> None:
    lease = await bench.claimed()
    ground = await bench.grounds.stand(lease)
    bench.grounds._watcher.forget(ground.workspace_id)
    shutil.rmtree(ground.path)
    with pytest.raises(GroundLost):
        await bench.grounds.stand(lease)

    assert "lost" == (await bench.client.run(lease.run_id)).state


async def test_an_end_of_the_ground_is_heard_before_the_word_of_the_command_that_stood_on_it(bench: Bench) -> None:
    lease = await bench.claimed()
    ground = await bench.grounds.stand(lease)
    stood = await bench.grounds.stands(lease.run_id)
    shutil.rmtree(ground.path)
    stands = await bench.grounds.stands(lease.run_id)
    run = await bench.client.run(lease.run_id)

    assert (True, False) == (stood, stands)
    assert ("lost", "DirectoryDeleted") == (run.state, run.error["reason"])


@pytest.mark.origin("C19")
async def test_a_directory_is_not_destroyed_while_a_command_stands_in_it(bench: Bench) -> None:
    lease = await bench.claimed()
    ground = await bench.grounds.stand(lease)
    attempt = bench.home.attempt(lease)
    await bench.client.workspaces.release(ground.workspace_id)
    await bench.grounds.destroy(ground.workspace_id)

    assert ground.path.exists()

    attempt.remove()
    await bench.grounds.destroy(ground.workspace_id)

    assert not ground.path.exists()
    assert "destroyed" == (await bench.shown(ground)).phase


async def test_a_directory_that_was_released_is_destroyed_though_its_run_goes_on_in_another(bench: Bench) -> None:
    lease = await bench.claimed()
    first = await bench.grounds.stand(lease)
    await bench.client.workspaces.release(first.workspace_id)
    await bench.client.hand_back(lease)
    await bench.client.register_worker("next")
    again = await bench.client.claim_run(lease.run_id, "next")
    following = LeaseRef(again.run_id, again.fence)
    attempt = bench.home.attempt(following)
    second = await bench.grounds.stand(following)
    await bench.grounds.destroy(second.workspace_id)
    await bench.grounds.destroy(first.workspace_id)

    assert first.workspace_id != second.workspace_id
    assert (False, True) == (first.path.exists(), second.path.exists())
    assert "destroyed" == (await bench.shown(first)).phase
    attempt.remove()


async def test_what_is_not_ours_is_left_alone_and_said_once(bench: Bench) -> None:
    lease = await bench.claimed()
    ground = await bench.grounds.stand(lease)
    bench.grounds._watcher.forget(ground.workspace_id)
    os.removexattr(ground.path, marks.ATTRIBUTE)
    (ground.path / "precious").touch()
    await bench.client.workspaces.release(ground.workspace_id)
    for _ in range(2):
        await bench.grounds.destroy(ground.workspace_id)

    assert (ground.path / "precious").exists()
    assert 1 == bench.log.counts["workspace_left_alone"]
    assert "destroyed" == (await bench.shown(ground)).phase


@pytest.mark.origin("K16")
async def test_the_directory_of_a_run_that_has_ended_is_neither_watched_nor_held_open(bench: Bench) -> None:
    lease = await bench.claimed()
    ground = await bench.grounds.stand(lease)
    pin = bench.grounds._watcher._watched[ground.workspace_id].pin
    await bench.client.close(lease, "succeeded")
    bench.grounds.left(lease.run_id, ended=True)

    assert not bench.grounds._watcher.watching(ground.workspace_id)
    assert -1 == pin.descriptor
    assert ground.path.is_dir()
    assert not bench.grounds._standing


async def test_a_command_of_which_nobody_knows_how_it_ended_makes_the_worker_ask(bench: Bench) -> None:
    lease = await bench.claimed()
    ground = await bench.grounds.stand(lease)
    await bench.client.close(lease, "succeeded")
    bench.grounds.left(lease.run_id)
    await bench.happened("workspace_no_longer_asserted")

    assert not bench.grounds._watcher.watching(ground.workspace_id)


async def test_of_directories_of_ended_runs_only_the_newest_are_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grounds_room, "KEPT_ENDED", 1)
    grounds = []
    for _ in range(3):
        lease = await bench.claimed()
        grounds.append(await bench.grounds.stand(lease))
        await bench.client.close(lease, "succeeded")
        bench.grounds.left(lease.run_id, ended=True)
    bench.grounds.sweep()
    await bench.happened("workspace_destroyed", times=2)

    assert [False, False, True] == [ground.path.exists() for ground in grounds]
    for ground in grounds[:2]:
        await bench.becomes(ground, "destroyed")
    assert "running" == (await bench.shown(grounds[2])).phase


async def test_of_directories_that_the_service_does_not_know_only_so_many_are_kept(
    shared: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grounds_room, "KEPT_UNKNOWN", 1)
    home = Home(tmp_path / "home")
    async with AsyncClient(data_dir=shared.data_dir) as client:
        before = Grounds(client, home, Log(lambda name, values: None))
        for age, name in enumerate(["old", "new"]):
            await before.provider.place(name, {"run_id": f"run-of-{name}"})
            os.utime(before.provider.root / f"{name}.json", (1000 + age, 1000 + age))
    home.close()
    async with looking_after(shared, tmp_path / "home") as bench:
        provider = bench.grounds.provider

        async def pruned() -> bool:
            return 1 == len(list(provider.records()))

        await eventually(pruned, what="one directory is removed")

        left = [record.workspace_id for record in provider.records() if record.unknown]
        assert left == [path.name for path in provider.root.iterdir() if path.is_dir()]
