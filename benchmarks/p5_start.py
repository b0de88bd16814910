"""P5: one run submitted alone to an idle service until its handler starts, in milliseconds.

Three roads, each with a worker that waits and nothing else going on; the next run is submitted once the last has ended:

- `claimed`: from before the submission is sent until the waiting claim is answered, over bare connections;
- `confirmed`: the same, and until the first heartbeat is answered, which must succeed before a handler starts;
- `sdk`: from the submission until a handler of the Python SDK's worker runs; its claims go over HTTP and its first
  heartbeat over its WebSocket. Leader and worker share this process, so their own Python is in the figure.

    python -m benchmarks.p5_start [--runs 300] [--rounds 3] [--dir DIR]
"""

import argparse
import asyncio
import time

import jackline
from benchmarks.lean import Client
from benchmarks.measuring import WARM, Figures, measure, quantiles
from benchmarks.serving import Serving


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    claimed, confirmed = await bare(client, f"p5-{number}", options.runs)
    return {
        "claimed": quantiles(claimed),
        "confirmed": quantiles(confirmed),
        "sdk": quantiles(await through_sdk(service, f"p5-sdk-{number}", options.runs)),
    }


async def bare(client: Client, queue: str, runs: int) -> tuple[list[float], list[float]]:
    """Seconds to the answered claim, and to the answered first heartbeat, of each run."""
    leader, worker = await client.connect(2)
    await client.register(leader, queue, 10)
    wish = client.send("/v1/runs", {"queue": queue})
    asked = client.send("/v1/claims", {"worker_id": queue, "queues": [queue], "wait_s": 30})
    claimed: list[float] = []
    confirmed: list[float] = []
    for _ in range(runs):
        waiting = asyncio.ensure_future(client.told(worker, asked))
        await settled()
        begun = time.perf_counter()
        submitting = asyncio.ensure_future(client.told(leader, wish))
        (claim,) = (await waiting)["claims"]
        claimed.append(time.perf_counter() - begun)
        lease = {"run_id": claim["run_id"], "fence": claim["fence"]}
        await client.told(worker, client.send(f"/v1/workers/{queue}/heartbeat", {"leases": [lease]}))
        confirmed.append(time.perf_counter() - begun)
        await submitting
        ended = {"fence": claim["fence"], "outcome": "succeeded"}
        await client.told(worker, client.send(f"/v1/runs/{claim['run_id']}/close", ended))
    return claimed, confirmed


async def settled() -> None:
    """Let the waiting claim arrive, so that it really waits."""
    await asyncio.sleep(0.005)


async def through_sdk(service: Serving, queue: str, runs: int) -> list[float]:
    """Seconds from submission to handler of each run, through the SDK's own worker."""
    started: asyncio.Queue[float] = asyncio.Queue()
    seconds: list[float] = []
    async with (
        jackline.AsyncClient(service.url, service.key) as leader,
        jackline.AsyncClient(service.url, service.key) as client,
    ):
        worker = jackline.Worker(client, queue)

        @worker.handles(queue)
        async def note(run: jackline.HeldRun) -> None:
            started.put_nowait(time.perf_counter())

        working = asyncio.ensure_future(worker.run())
        for _ in range(runs):
            await asyncio.sleep(0.01)
            begun = time.perf_counter()
            receipt = await leader.submit(queue=queue)
            seconds.append(await asyncio.wait_for(started.get(), 30) - begun)
            await leader.wait(receipt.run_id)
        worker.stop()
        await working
    return seconds


if __name__ == "__main__":
    measure("P5", "one run submitted alone until its handler starts, idle service", one_round, rounds=WARM, runs=300)
