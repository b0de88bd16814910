"""P2: one durable command per HTTP request over 64 connections, against `GET /livez` of the same service.

Each connection is a worker. In a round all connections first ask for `/livez`, then claim one run at a time, then close
those runs one at a time; each phase makes the same number of requests. A claim is two facts and a close is two, each
acknowledged after its fsync. The ratio is that of claims and closes together to `/livez`.

    python -m benchmarks.p2_commands [--requests 6400] [--connections 64] [--rounds 3] [--dir DIR]
"""

import argparse

from benchmarks.lean import Client, Connection, measured, side_by_side
from benchmarks.measuring import WARM, Figures, measure
from benchmarks.serving import Serving


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    share, queue = options.requests // options.connections, f"p2-{number}"
    count = share * options.connections
    connections = await client.connect(options.connections)
    for worker in range(options.connections):
        await client.register(connections[0], f"p2-{worker}", 10_000)
    await client.submit(connections[0], count, queue)
    granted: list[list[tuple[str, int]]] = [[] for _ in connections]
    livez = client.get("/livez")

    async def look(connection: Connection, _: int) -> None:
        for _ in range(share):
            await client.told(connection, livez)

    async def claim(connection: Connection, worker: int) -> None:
        asked = client.send("/v1/claims", {"worker_id": f"p2-{worker}", "queues": [queue]})
        for _ in range(share):
            (claimed,) = (await client.told(connection, asked))["claims"]
            granted[worker].append((claimed["run_id"], claimed["fence"]))

    async def close(connection: Connection, worker: int) -> None:
        for run_id, fence in granted[worker]:
            ended = {"fence": fence, "outcome": "succeeded"}
            await client.told(connection, client.send(f"/v1/runs/{run_id}/close", ended))

    with measured(service.pid) as looked:
        await side_by_side(connections, look)
    with measured(service.pid) as claimed:
        await side_by_side(connections, claim)
    with measured(service.pid) as closed:
        await side_by_side(connections, close)
    return {
        "ratio": round(2 * looked.wall_s / (claimed.wall_s + closed.wall_s), 4),
        "ratio_claims": round(looked.wall_s / claimed.wall_s, 4),
        "ratio_closes": round(looked.wall_s / closed.wall_s, 4),
        "livez": looked.per(count),
        "claims": claimed.per(count),
        "closes": closed.per(count),
    }


if __name__ == "__main__":
    measure(
        "P2",
        "one durable command per HTTP request, 64 connections",
        one_round,
        rounds=WARM,
        requests=6400,
        connections=64,
    )
