"""P3: draining 5,000 runs that do nothing: 32 slots, claims and closes in batches of 16.

One worker of 32 slots works over two connections: each claims up to 16 runs, closes them in one call, and claims again
until nothing is due. Everything is acknowledged after its fsync. Submitting is not part of it.

    python -m benchmarks.p3_drain [--runs 5000] [--batch 16] [--slots 32] [--rounds 3] [--dir DIR]
"""

import argparse

from benchmarks.lean import Client, Connection, measured, side_by_side
from benchmarks.measuring import WARM, Figures, measure
from benchmarks.serving import Serving


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    queue, closed = f"p3-{number}", [0]
    connections = await client.connect(options.slots // options.batch)
    worker = await client.register(connections[0], f"p3-{number}", options.slots)
    await client.submit(connections[0], options.runs, queue)
    asked = client.send("/v1/claims", {"worker_id": worker, "queues": [queue], "max": options.batch})

    async def drain(connection: Connection, _: int) -> None:
        while claims := (await client.told(connection, asked))["claims"]:
            ended = [{"run_id": c["run_id"], "fence": c["fence"], "outcome": "succeeded"} for c in claims]
            answers = (await client.told(connection, client.send("/v1/closes", {"closes": ended})))["closes"]
            closed[0] += sum(answer["state"] == "succeeded" for answer in answers)

    with measured(service.pid) as cost:
        await side_by_side(connections, drain)
    if closed[0] != options.runs:
        message = f"{closed[0]} of {options.runs} runs were closed"
        raise RuntimeError(message)
    return {"runs_per_s": cost.rate(options.runs), "drain": cost.per(options.runs)}


if __name__ == "__main__":
    measure(
        "P3", "drain 5,000 no-op runs, 32 slots, batches of 16", one_round, rounds=WARM, runs=5000, batch=16, slots=32
    )
