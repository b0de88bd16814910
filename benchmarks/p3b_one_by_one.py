"""P3b: whole runs over HTTP one by one: submit, claim, close, by 8 clients that share a queue.

Each client is leader and worker at once over one connection. A run is three requests and five facts, each acknowledged
after its fsync; a client closes whichever run it was granted.

    python -m benchmarks.p3b_one_by_one [--runs 2000] [--clients 8] [--rounds 3] [--dir DIR]
"""

import argparse

from benchmarks.lean import Client, Connection, measured, side_by_side
from benchmarks.measuring import WARM, Figures, measure
from benchmarks.serving import Serving


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    share, queue = options.runs // options.clients, f"p3b-{number}"
    connections = await client.connect(options.clients)
    for worker in range(options.clients):
        await client.register(connections[0], f"p3b-{worker}", 10)
    wish = client.send("/v1/runs", {"queue": queue})

    async def live(connection: Connection, worker: int) -> None:
        asked = client.send("/v1/claims", {"worker_id": f"p3b-{worker}", "queues": [queue]})
        for _ in range(share):
            await client.told(connection, wish)
            (claim,) = (await client.told(connection, asked))["claims"]
            ended = {"fence": claim["fence"], "outcome": "succeeded"}
            await client.told(connection, client.send(f"/v1/runs/{claim['run_id']}/close", ended))

    with measured(service.pid) as cost:
        await side_by_side(connections, live)
    count = share * options.clients
    return {"runs_per_s": cost.rate(count), "run": cost.per(count)}


if __name__ == "__main__":
    measure("P3b", "whole runs over HTTP one by one, 8 clients", one_round, rounds=WARM, runs=2000, clients=8)
