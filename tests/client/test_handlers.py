"""The SDK's worker against a real service: handlers, and how they end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackline import AsyncClient, EffectAmbiguous, EffectMismatch, HeldRun, LeaseRef, Retry, Run, Worker
from jackline.models import PolicyOptions
from tests.client.serving import Service
from tests.waiting import BOUND_S, eventually

pytestmark = pytest.mark.system

Handler = Callable[[HeldRun], Awaitable[Any]]
QUICK: PolicyOptions = {"retry_base_s": 0.1, "max_attempts": 2}


@asynccontextmanager
async def working(
    service: Service, queue: str, handler: Handler, **options: Any
) -> AsyncIterator[tuple[AsyncClient, Worker]]:
    """A worker with one handler, stopped at the end."""
    async with AsyncClient(data_dir=service.data_dir, retry=Retry(patience_s=10.0)) as client:
        worker = Worker(client, f"w-{queue}", **options)
        worker.handles(queue)(handler)
        running = asyncio.create_task(worker.run())
        try:
            yield client, worker
        finally:
            worker.stop()
            await asyncio.wait_for(running, 40)


async def handled(service: Service, queue: str, handler: Handler, payload: Any = None) -> tuple[Run, Worker]:
    """What became of one run."""
    async with working(service, queue, handler) as (client, worker):
        receipt = await client.submit(payload, queue=queue, policy=QUICK)
        return await client.wait(receipt.run_id, BOUND_S), worker


async def in_state(client: AsyncClient, run_id: str, state: str) -> None:
    async def holds() -> bool:
        return (await client.run(run_id)).state == state

    await eventually(holds, what=f"the run is {state}")


def test_a_worker_says_which_client_it_needs(shared: Service) -> None:
    with (
        shared.client() as blocking,
        pytest.raises(TypeError, match="this is a Client"),
    ):
        Worker(blocking, "w")  # type: ignore[arg-type]


async def test_what_a_handler_returns_is_the_result(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        await run.output("hello\n")
        await run.progress("going")
        await run.partial.save({"half": run.payload})
        return {"fence": run.fence, "attempt": run.attempt, "partial": run.partial.get()}

    run, worker = await handled(shared, queue, handler, 7)

    assert ("succeeded", {"fence": 1, "attempt": 1, "partial": {"half": 7}}) == (run.state, run.result)
    assert 1 == worker.log.counts["run_ended"]


async def test_what_a_handler_raises_is_the_error_and_the_run_is_retried(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        if run.attempt == 1:
            await run.partial.save("from the first")
            msg = "no luck"
            raise LookupError(msg)
        return run.partial.get()

    run, _ = await handled(shared, queue, handler)

    assert ("succeeded", 2, "from the first") == (run.state, run.attempt, run.result)


async def test_an_error_that_is_not_worth_retrying_says_so(shared: Service, queue: str) -> None:
    class Hopeless(Exception):
        retryable = False

    async def handler(run: HeldRun) -> Any:
        raise Hopeless

    run, _ = await handled(shared, queue, handler)

    assert ("failed", 1, "Hopeless") == (run.state, run.attempt, run.error["code"])


async def test_a_result_that_is_not_json_is_a_failure(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        return object()

    run, _ = await handled(shared, queue, handler)

    assert ("failed", "result_not_json") == (run.state, run.error["code"])


@pytest.mark.origin("D19")
async def test_what_is_said_arrives_in_the_order_in_which_it_was_said_and_before_the_close(
    shared: Service, queue: str
) -> None:
    async def handler(run: HeldRun) -> Any:
        for number in range(50):
            await run.output(f"{number}\n")

    run, _ = await handled(shared, queue, handler)
    with shared.client() as client:
        chunks = list(client.output_so_far(run.run_id))

    assert [f"{number}\n" for number in range(50)] == [chunk.data for chunk in chunks]


async def test_a_question_unwinds_the_handler_and_is_answered_when_it_asks_again(shared: Service, queue: str) -> None:
    seen: list[int] = []

    async def handler(run: HeldRun) -> Any:
        seen.append(run.attempt)
        first = await run.park("first?")
        second = await run.park("second?")
        return [first, second]

    async with working(shared, queue, handler) as (client, _):
        run_id = (await client.submit(queue=queue)).run_id
        for answer in ("one", "two"):
            await in_state(client, run_id, "waiting_input")
            await client.answer(run_id, answer)
        run = await client.wait(run_id, BOUND_S)

    assert (["one", "two"], [1, 2, 3], 0) == (run.result, seen, run.failed_attempts)


async def test_a_question_can_be_waited_for_with_the_lease_kept(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        return await run.park("which?", keep_lease=True)

    async with working(shared, queue, handler) as (client, _):
        run_id = (await client.submit(queue=queue)).run_id
        await in_state(client, run_id, "waiting_input")
        await client.answer(run_id, {"it": 1})
        run = await client.wait(run_id, BOUND_S)

    assert ("succeeded", {"it": 1}, 1) == (run.state, run.result, run.attempt)


@pytest.mark.origin("B25", "B26")
async def test_an_effect_happens_once_over_all_attempts(shared: Service, queue: str) -> None:
    caused: list[int] = []

    async def handler(run: HeldRun) -> Any:
        async def cause() -> str:
            caused.append(run.attempt)
            return f"by {run.attempt}"

        outcome = await run.once("mail", {"to": "ada"}, cause)
        if run.attempt == 1:
            raise LookupError
        with pytest.raises(EffectMismatch):
            await run.once("mail", {"to": "bob"}, cause)
        return outcome

    run, _ = await handled(shared, queue, handler)

    assert ("by 1", [1]) == (run.result, caused)


async def test_an_effect_that_broke_in_the_middle_is_ambiguous_until_somebody_finds_out(
    shared: Service, queue: str
) -> None:
    async def handler(run: HeldRun) -> Any:
        try:
            async with run.effect("mail", 1) as effect:
                if run.attempt == 1:
                    raise LookupError
                effect.outcome = "now"
        except EffectAmbiguous:
            await run.reconcile("mail", done=False)
            async with run.effect("mail", 1) as effect:
                effect.outcome = "after all"
        return effect.outcome

    run, _ = await handled(shared, queue, handler)

    assert ("succeeded", "after all") == (run.state, run.result)


async def test_an_effect_that_certainly_did_not_happen_may_be_caused_again(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        async with run.effect("mail", 1) as effect:
            if run.attempt == 1:
                effect.fail("refused")
                raise LookupError
            effect.outcome = "sent"
        return effect.outcome

    run, _ = await handled(shared, queue, handler)

    assert ("succeeded", "sent") == (run.state, run.result)


@pytest.mark.origin("D21", "D22", "B33")
async def test_a_handler_whose_lease_is_lost_is_cancelled_and_nothing_of_it_is_accepted(
    shared: Service, queue: str
) -> None:
    ended = asyncio.Event()

    async def handler(run: HeldRun) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with working(shared, queue, handler) as (client, worker):
        run_id = (await client.submit(queue=queue)).run_id
        await in_state(client, run_id, "running")
        # Its own name claims on behalf of a second process: the same name is a new holder.
        await client.hand_back(LeaseRef(run_id, 1))
        await asyncio.wait_for(ended.wait(), BOUND_S)

        async def told() -> int:
            return worker.log.counts["claim_lost_before_finish"]

        await eventually(told, what="the worker counts it")
        assert 0 == worker.log.counts["run_ended"], "only what the service has accepted is told as an outcome"


@pytest.mark.origin("D20")
async def test_what_a_handler_says_while_the_service_is_down_arrives_in_order_when_it_is_back(
    own_service: Service,
) -> None:
    down, said = asyncio.Event(), asyncio.Event()

    async def handler(run: HeldRun) -> Any:
        await run.output("before\n")
        await down.wait()
        for number in range(20):
            await run.output(f"{number}\n")
        said.set()
        await run.partial.save("after")
        return "done"

    own_service.start()
    async with working(own_service, "q", handler) as (client, _):
        run_id = (await client.submit(queue="q")).run_id

        async def begun() -> bool:
            return bool([chunk async for chunk in client.output_so_far(run_id)])

        await eventually(begun, what="the handler has begun")
        await asyncio.to_thread(own_service.kill)
        down.set()
        await asyncio.wait_for(said.wait(), BOUND_S)
        await asyncio.to_thread(own_service.start)
        run = await client.wait(run_id, BOUND_S)
        chunks = [chunk.data async for chunk in client.output_so_far(run_id)]

    assert ("succeeded", "done", "after", 1) == (run.state, run.result, run.partial, run.attempt)
    assert ["before\n", *(f"{number}\n" for number in range(20))] == chunks


async def test_a_cancelled_run_cancels_its_handler_which_may_still_save(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await run.partial.save("saved")
            raise

    async with working(shared, queue, handler) as (client, _):
        run_id = (await client.submit(queue=queue)).run_id
        await in_state(client, run_id, "running")
        await client.cancel(run_id)
        run = await client.wait(run_id, BOUND_S)

    assert ("cancelled", "saved") == (run.state, run.result)


@pytest.mark.origin("D8")
async def test_a_worker_that_stops_hands_its_runs_back_and_counts_nothing(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        await asyncio.Event().wait()

    async with working(shared, queue, handler) as (client, _):
        run_id = (await client.submit(queue=queue)).run_id
        await in_state(client, run_id, "running")
    async with AsyncClient(data_dir=shared.data_dir) as client:
        run = await client.run(run_id)

    assert ("queued", 0) == (run.state, run.failed_attempts)


async def test_a_worker_with_two_queues_gives_each_run_to_its_own_handler(shared: Service, queue: str) -> None:
    async with AsyncClient(data_dir=shared.data_dir) as client:
        worker = Worker(client, f"two-{queue}", slots=2)

        @worker.handles(f"{queue}a")
        async def first(run: HeldRun) -> Any:
            return "a"

        @worker.handles(f"{queue}b")
        async def second(run: HeldRun) -> Any:
            return "b"

        running = asyncio.create_task(worker.run())
        receipts = [await client.submit(queue=f"{queue}{letter}") for letter in "ab"]
        results = [(await client.wait(receipt.run_id, BOUND_S)).result for receipt in receipts]
        worker.stop()
        await asyncio.wait_for(running, BOUND_S)

    assert ["a", "b"] == results


async def test_a_worker_without_a_handler_does_not_start() -> None:
    async with AsyncClient("http://127.0.0.1:1", "k") as client:
        with pytest.raises(ValueError, match="no handler"):
            await Worker(client, "w").run()


async def test_a_cancellation_that_nobody_asked_for_fails_the_attempt(shared: Service, queue: str) -> None:
    async def handler(run: HeldRun) -> Any:
        inner = asyncio.create_task(asyncio.Event().wait())
        inner.cancel()
        await inner

    run, worker = await handled(shared, queue, handler)

    assert ("failed", "CancelledError", 2) == (run.state, run.error["code"], run.attempt)
    assert 2 == worker.log.counts["run_ended"]


async def test_a_worker_that_is_cancelled_leaves_no_handler_behind(shared: Service, queue: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def handler(run: HeldRun) -> Any:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with AsyncClient(data_dir=shared.data_dir) as client:
        before = asyncio.all_tasks()
        worker = Worker(client, f"w-{queue}")
        worker.handles(queue)(handler)
        running = asyncio.create_task(worker.run())
        receipt = await client.submit(None, queue=queue, policy=QUICK)
        await asyncio.wait_for(began.wait(), BOUND_S)
        running.cancel()
        await asyncio.wait([running])

        assert ended.is_set()
        assert not asyncio.all_tasks() - before
        assert "queued" == (await client.run(receipt.run_id)).state


@pytest.mark.parametrize("succeeds", [True, False])
async def test_what_the_service_will_never_take_fails_the_attempt_once(
    shared: Service, queue: str, *, succeeds: bool
) -> None:
    async def handler(run: HeldRun) -> Any:
        if succeeds:
            return "x" * (1 << 20)
        error = LookupError("x" * (1 << 20))
        error.retryable = False  # type: ignore[attr-defined]
        raise error

    run, _ = await handled(shared, queue, handler)

    assert ("failed", "result_refused" if succeeds else "error_refused", 1) == (
        run.state, run.error["code"], run.attempt,
    )  # fmt: skip
    assert "body_too_large" in run.error["message"]
