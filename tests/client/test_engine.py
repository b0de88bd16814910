"""The worker's engine against a real service, with heartbeats that fail when a test wants them to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackline import AsyncClient, Claim, Fact, LeaseRef, Renewal, Retry, Run, Unknown
from jackline.models import PolicyOptions
from jackline.worker.engine import Engine, Setup
from jackline.worker.held import HeldLease
from jackline.worker.log import Log
from tests.client.serving import Service
from tests.waiting import BOUND_S, eventually

pytestmark = pytest.mark.system

ONCE = Retry(patience_s=0.0)
SHORT: PolicyOptions = {"lease_ttl_s": 3.0}
"""Renewed every second, so that a test sees several beats; two of them may come late on a busy machine."""


class Faulty(AsyncClient):
    """A client of the real service whose heartbeats can be lost on the way; it remembers what they asked for."""

    def __init__(self, service: Service) -> None:
        super().__init__(data_dir=service.data_dir, retry=Retry(patience_s=5.0))
        self.beats: list[list[LeaseRef]] = []
        self.lose: Callable[[int], bool] = lambda number: False

    async def heartbeat(
        self, worker_id: str, leases: Sequence[LeaseRef], *, timeout_s: float = 10.0, retry: Retry = ONCE
    ) -> list[Renewal]:
        """The service's answer, unless this heartbeat is to be lost."""
        self.beats.append(list(leases))
        if self.lose(len(self.beats)):
            msg = f"heartbeat {len(self.beats)} was lost"
            raise Unknown(msg)
        return await super().heartbeat(worker_id, leases, timeout_s=timeout_s, retry=retry)

    def beats_for(self, run_id: str) -> int:
        """How many heartbeats asked about that run."""
        return sum(run_id in [lease.run_id for lease in beat] for beat in self.beats)


class Execution:
    """Work that goes on until the test lets it end."""

    def __init__(self, claim: Claim, lease: HeldLease) -> None:
        self.claim = claim
        self.lease = lease
        self.stops: list[str] = []
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.breaks: Exception | None = None

    async def run(self) -> None:
        """Work."""
        self.started.set()
        await self.may_end.wait()
        if self.breaks is not None:
            raise self.breaks

    def stop(self, reason: str) -> None:
        """Remember that it was asked to end."""
        self.stops.append(reason)


class Bench:
    """An engine under test, and what it has begun."""

    def __init__(self, client: Faulty, queue: str, slots: int = 3, sink: Any = None) -> None:
        self.client = client
        self.queue = queue
        self.begun: list[Execution] = []
        self.log = Log(sink or self._hear)
        self.heard: list[tuple[str, Mapping[str, Any]]] = []
        setup = Setup(f"w-{queue}", [queue], slots, stream=False, stop_within_s=20.0)
        self.engine = Engine(client, setup, self._begin, self.log)

    def _begin(self, claim: Claim, lease: HeldLease) -> Execution:
        self.begun.append(Execution(claim, lease))
        return self.begun[-1]

    def _hear(self, happening: str, values: Mapping[str, Any]) -> None:
        self.heard.append((happening, values))

    async def submit(self, count: int = 1) -> list[str]:
        """Submit runs to the engine's queue."""
        receipts = await self.client.submit_many([{"queue": self.queue, "policy": SHORT} for _ in range(count)])
        return [receipt.run_id for receipt in receipts]

    async def until(self, what: str, holds: Callable[[], Any]) -> None:
        """Wait for something that needs no question to the service."""

        async def asked() -> bool:
            return bool(holds())

        await eventually(asked, what=what)

    def let_all_end(self) -> None:
        """All work may end."""
        for execution in self.begun:
            execution.may_end.set()


@asynccontextmanager
async def running(service: Service, queue: str, **options: Any) -> AsyncIterator[Bench]:
    """An engine that works, and has stopped at the end."""
    async with Faulty(service) as client:
        bench = Bench(client, queue, **options)
        working = asyncio.create_task(bench.engine.run())
        try:
            yield bench
        finally:
            bench.let_all_end()
            bench.engine.stop()
            await asyncio.wait_for(working, BOUND_S)


@pytest.mark.origin("D1", "D13")
async def test_one_heartbeat_confirms_all_that_was_claimed_before_any_of_it_starts(shared: Service, queue: str) -> None:
    async with running(shared, queue) as bench:
        beats_at_start: list[int] = []
        begin = bench.engine._begin

        def noting(claim: Claim, lease: HeldLease) -> Any:
            beats_at_start.append(bench.client.beats_for(claim.run_id))
            return begin(claim, lease)

        bench.engine._begin = noting
        run_ids = await bench.submit(3)
        await bench.until("all have started", lambda: len(bench.begun) == 3)
        await bench.until("they are renewed", lambda: bench.client.beats_for(run_ids[0]) >= 4)

        assert [1, 1, 1] == beats_at_start
        together = [sorted(lease.run_id for lease in beat) for beat in bench.client.beats if beat][-2:]
        assert [sorted(run_ids)] * 2 == together


@pytest.mark.origin("D4", "D13")
async def test_a_run_whose_first_heartbeat_fails_is_handed_back_unstarted_and_the_first_error_is_kept(
    shared: Service, queue: str
) -> None:
    async with running(shared, queue) as bench:
        await bench.until("it has beaten", lambda: bench.client.beats)
        before = len(bench.client.beats)
        bench.client.lose = lambda number: True
        (run_id,) = await bench.submit()
        await bench.until("it is handed back", lambda: bench.log.counts["handed_back"])
        bench.engine.stop()

        async def ended() -> list[Fact]:
            facts = [fact async for fact in bench.client.facts(run_id)]
            return [fact for fact in facts if fact.topic == "run.attempt_ended.v1"]

        ends = await eventually(ended, what="the attempt has ended")

    error = next(values["error"] for happening, values in bench.heard if happening == "handed_back")
    assert [] == bench.begun
    assert "handed_back" == ends[0].data["outcome"]
    assert int(error.split()[1]) <= before + 2, "the first error is the one that is kept"


@pytest.mark.origin("H2")
async def test_one_lost_heartbeat_ends_nothing(shared: Service, queue: str) -> None:
    async with running(shared, queue) as bench:
        (run_id,) = await bench.submit()
        await bench.until("it has started", lambda: bench.begun)
        lost = len(bench.client.beats) + 1
        bench.client.lose = lambda number: number == lost
        await bench.until("beats go on", lambda: len(bench.client.beats) > lost + 2)

        assert bench.begun[0].lease.loss is None
        assert 1 == (await bench.client.run(run_id)).fence
        assert (1, 1) == (bench.log.counts["unanswered"], bench.log.counts["reconnected"])


@pytest.mark.origin("D3", "D33", "K4")
async def test_a_lease_that_nobody_confirms_is_given_up_before_its_ttl_although_telling_of_it_fails(
    shared: Service, queue: str
) -> None:
    def failing(happening: str, values: Mapping[str, Any]) -> None:
        raise OSError(happening)

    async with running(shared, queue, sink=failing) as bench:
        (run_id,) = await bench.submit()
        await bench.until("it has started", lambda: bench.begun)
        bench.client.lose = lambda number: True
        await asyncio.wait_for(bench.begun[0].lease.over.wait(), BOUND_S)
        run = await bench.client.run(run_id)

        loss = bench.begun[0].lease.loss
        assert loss is not None
        assert ("distrust", "running", 1) == (loss.kind, run.state, run.fence)


@pytest.mark.origin("D2", "D8", "R19")
async def test_a_stop_keeps_what_is_held_renewed_until_the_work_has_really_ended(shared: Service, queue: str) -> None:
    async with running(shared, queue) as bench:
        (run_id,) = await bench.submit()
        await bench.until("it has started", lambda: bench.begun)
        bench.engine.stop()
        await bench.until("it is asked to end", lambda: bench.begun[0].stops)
        before = bench.client.beats_for(run_id)
        await bench.until("beats go on", lambda: bench.client.beats_for(run_id) > before + 4)
        run = await bench.client.run(run_id)

        assert ("running", 1, ["shutdown"]) == (run.state, run.fence, bench.begun[0].stops)


@pytest.mark.origin("D9", "D10", "R27")
async def test_lost_heartbeats_and_a_stop_end_the_same_work_once(shared: Service, queue: str) -> None:
    async with running(shared, queue) as bench:
        (run_id,) = await bench.submit()
        await bench.until("it has started", lambda: bench.begun)
        bench.client.lose = lambda number: True
        bench.engine.stop()
        await asyncio.wait_for(bench.begun[0].lease.over.wait(), BOUND_S)
        bench.client.lose = lambda number: False
        bench.begun[0].breaks = LookupError("the work broke while it was ended")
        bench.let_all_end()
        await bench.until("it is given back", lambda: bench.log.counts["handed_back"])
        facts = [fact async for fact in bench.client.facts(run_id)]

    assert 1 == bench.log.counts["handed_back"]
    assert 1 == sum(fact.topic == "run.attempt_ended.v1" for fact in facts)


@pytest.mark.origin("D6", "D7")
async def test_the_same_run_claimed_anew_waits_until_its_older_attempt_has_ended_here(
    shared: Service, queue: str
) -> None:
    async with running(shared, queue) as bench:
        (run_id,) = await bench.submit()
        await bench.until("it has started", lambda: bench.begun)
        await bench.client.hand_back(LeaseRef(run_id, 1))
        await bench.until("it is claimed anew", lambda: len(bench.begun) == 2)
        old, new = bench.begun
        await asyncio.wait_for(old.lease.over.wait(), BOUND_S)
        assert not new.started.is_set()
        bench.engine.press("asked while it waits")
        old.may_end.set()
        await asyncio.wait_for(new.started.wait(), BOUND_S)

        assert (1, 2) == (old.lease.ref.fence, new.lease.ref.fence)
        assert ["asked while it waits"] == new.stops
        assert new.lease.loss is None


async def test_work_that_breaks_hands_its_run_back_and_frees_its_slot(shared: Service, queue: str) -> None:
    async with running(shared, queue, slots=1) as bench:
        await bench.submit(2)
        await bench.until("the first has started", lambda: bench.begun)
        bench.begun[0].breaks = LookupError("broken")
        bench.let_all_end()
        await bench.until("the second has started", lambda: len(bench.begun) == 2)

        assert bench.begun[0].claim.run_id != bench.begun[1].claim.run_id
        assert 1 == bench.log.counts["handed_back"]


@pytest.mark.origin("D4")
async def test_a_run_is_handed_back_until_somebody_hears_it_and_its_lease_is_renewed_meanwhile(
    shared: Service, queue: str
) -> None:
    async with running(shared, queue) as bench:
        (run_id,) = await bench.submit()
        await bench.until("it has started", lambda: bench.begun)
        hand_back, silent = bench.client.hand_back, True

        async def unheard(lease: LeaseRef, *, key: str | None = None) -> Run:
            if silent:
                msg = "nobody answers"
                raise Unknown(msg)
            return await hand_back(lease, key=key)

        bench.client.hand_back = unheard  # type: ignore[method-assign]
        bench.begun[0].breaks = LookupError("broken")
        before = bench.client.beats_for(run_id)
        bench.let_all_end()
        await bench.until("it is renewed", lambda: bench.client.beats_for(run_id) > before + 2)
        assert 0 == bench.log.counts["handed_back"]
        silent = False
        await bench.until("it is handed back", lambda: bench.log.counts["handed_back"])
        run = await bench.client.run(run_id)

    assert (0, {"broken"}) == (
        run.failed_attempts,
        {one["error"] for name, one in bench.heard if name == "handed_back"},
    )
