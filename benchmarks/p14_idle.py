"""P14: what an idle service costs: parked runs that nobody answers, and workers that are connected and renew.

Every worker is granted its share of the runs and parks them as waiting for input, without their leases. Then each
holds one more run, opens its stream, and beats on it every 10 s as the SDK does, one after another over that time; a
beat that is not answered with its lease renewed fails the measurement. Every worker is full, so none waits for a claim.
Measured is the CPU time of the service over a stretch that begins when all are connected, as a share of one core.

The stretch should end before the parked runs have been quiet for 300 s: what they are told then is work, not idling.

    python -m benchmarks.p14_idle [--parked 10000] [--workers 100] [--seconds 20] [--rounds 1] [--dir DIR]
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.lean import Client, Connection, measured, side_by_side
from benchmarks.measuring import Figures, measure
from benchmarks.serving import Serving

CONNECTIONS = 8
BEAT_S = 10.0
SETTLE_S = 3.0
"""Time for what the preparations left behind: read models that catch up, connections that close."""


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    connections = await client.connect(CONNECTIONS)
    names = [f"p14-{number}-{worker}" for worker in range(options.workers)]
    share = -(-options.parked // len(names))
    held: dict[str, tuple[str, int]] = {}

    async def park(connection: Connection, lane: int) -> None:
        for at in range(lane, len(names), len(connections)):
            await _park(client, connection, names[at], min(share, max(0, options.parked - at * share)))

    async def hold(connection: Connection, lane: int) -> None:
        for name in names[lane :: len(connections)]:
            await client.register(connection, name, 1)
            held[name] = (await _claimed(client, connection, name, 1))[0]

    await side_by_side(connections, park)
    await side_by_side(connections, hold)
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(_stream(service, name)) for name in names]
        async with _beating([(stream, held[name]) for name, stream in zip(names, streams, strict=True)]) as beats:
            await asyncio.sleep(SETTLE_S)
            position = await client.position(connections[0])
            with measured(service.pid) as cost:
                ended, _ = await asyncio.wait(beats, timeout=options.seconds, return_when=asyncio.FIRST_COMPLETED)
            for one in ended:
                one.result()
            moved = await client.position(connections[0]) - position
    return {
        "percent_of_a_core": round(100 * cost.service_s / cost.wall_s, 3),
        "client_percent_of_a_core": round(100 * cost.client_s / cost.wall_s, 3),
        "measured_s": round(cost.wall_s, 1),
        "journal_moved_by": moved,
    }


@asynccontextmanager
async def _beating(held: list[tuple[ClientConnection, tuple[str, int]]]) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Every worker beats, one after another, for as long as the block lasts."""
    loop = asyncio.get_running_loop()
    beats = [loop.create_task(_beat(stream, lease, at * BEAT_S / len(held))) for at, (stream, lease) in enumerate(held)]
    try:
        yield beats
    finally:
        for one in beats:
            one.cancel()
        await asyncio.gather(*beats, return_exceptions=True)


async def _park(client: Client, connection: Connection, worker_id: str, count: int) -> None:
    """A worker that has parked so many runs."""
    await client.register(connection, worker_id, max(1, count))
    for run_id, fence in await _claimed(client, connection, worker_id, count) if count else ():
        wait = {"fence": fence, "kind": "waiting_input", "question": "and now?", "keep_lease": False}
        await client.told(connection, client.send(f"/v1/runs/{run_id}/park", wait))


async def _claimed(client: Client, connection: Connection, worker_id: str, count: int) -> list[tuple[str, int]]:
    """So many new runs that the worker was granted: id and fence."""
    await client.submit(connection, count, worker_id)
    granted: list[tuple[str, int]] = []
    while len(granted) < count:
        ask = {"worker_id": worker_id, "queues": [worker_id], "max": min(100, count - len(granted)), "wait_s": 5}
        claims = (await client.told(connection, client.send("/v1/claims", ask)))["claims"]
        if not claims:
            message = f"{worker_id} was granted {len(granted)} of {count} runs"
            raise RuntimeError(message)
        granted += [(claim["run_id"], claim["fence"]) for claim in claims]
    return granted


def _stream(service: Serving, worker_id: str) -> connect:
    """A worker's stream."""
    url = f"ws://127.0.0.1:{service.port}/v1/workers/{worker_id}/stream"
    return connect(url, additional_headers={"authorization": f"Bearer {service.key}"}, proxy=None)


async def _beat(stream: ClientConnection, lease: tuple[str, int], first_s: float) -> None:
    """Renew for ever.

    Raises:
        RuntimeError: it was not renewed.
    """
    await asyncio.sleep(first_s)
    while True:
        await stream.send(json.dumps({"leases": [{"run_id": lease[0], "fence": lease[1]}]}))
        answer = json.loads(await stream.recv())
        if [one["outcome"] for one in answer.get("leases", ())] != ["renewed"]:
            message = f"a heartbeat was answered {answer}"
            raise RuntimeError(message)
        await asyncio.sleep(BEAT_S)


if __name__ == "__main__":
    measure(
        "P14",
        "an idle service with parked runs and connected workers",
        one_round,
        rounds=1,
        parked=10_000,
        workers=100,
        seconds=20,
    )
