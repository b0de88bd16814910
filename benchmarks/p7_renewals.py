"""P7: lease renewals: heartbeats that list 100 leases each, and proof that none of them wrote to the journal.

Workers hold 100 leases each; over a few connections they beat one after another for a number of rounds. Every answer
must say `renewed` for every lease. The journal's position before and after must be the same.

    python -m benchmarks.p7_renewals [--workers 20] [--connections 8] [--beats 400] [--rounds 3] [--dir DIR]
"""

import argparse

from benchmarks.lean import Client, Connection, measured, side_by_side
from benchmarks.measuring import WARM, Figures, measure
from benchmarks.serving import Serving

LEASES = 100
RENEWED = b'"outcome":"renewed"'


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    connections = await client.connect(options.connections)
    beats = [await _beat_of(client, connections[0], f"p7-{number}-{worker}") for worker in range(options.workers)]
    share = options.beats // options.connections
    position = await client.position(connections[0])

    async def beat(connection: Connection, first: int) -> None:
        for turn in range(share):
            status, body = await connection.ask(beats[(first + turn) % len(beats)])
            if status != 200 or body.count(RENEWED) != LEASES:
                message = f"a heartbeat was answered {status}: {body[:300]!r}"
                raise RuntimeError(message)

    with measured(service.pid) as cost:
        await side_by_side(connections, beat)
    moved = await client.position(connections[0]) - position
    if moved:
        message = f"the heartbeats moved the journal by {moved}"
        raise RuntimeError(message)
    count = share * options.connections
    return {
        "leases_per_s": cost.rate(count * LEASES),
        "journal_moved_by": moved,
        "heartbeat": cost.per(count),
        "lease": cost.per(count * LEASES),
    }


async def _beat_of(client: Client, connection: Connection, worker_id: str) -> bytes:
    """The heartbeat of a worker that was just granted its leases."""
    await client.register(connection, worker_id, LEASES)
    await client.submit(connection, LEASES, worker_id)
    asked = client.send("/v1/claims", {"worker_id": worker_id, "queues": [worker_id], "max": LEASES})
    claims = (await client.told(connection, asked))["claims"]
    leases = [{"run_id": claim["run_id"], "fence": claim["fence"]} for claim in claims]
    return client.send(f"/v1/workers/{worker_id}/heartbeat", {"leases": leases})


if __name__ == "__main__":
    measure("P7", "heartbeats of 100 leases each", one_round, rounds=WARM, workers=20, connections=8, beats=400)
