"""P16: what a run costs as settled runs pile up in the journal, against the first thousand.

One service, one journal. Runs are submitted, claimed and closed in batches; after each step of the ladder (1 k, 10 k,
...) the next ``--probe`` runs are measured: CPU time of the service for each run, and how long a page of the list, of
usage and the timeline of the newest run take to be answered. The ratio is that of the last step's cost to the first's.
A step is measured three times and the median taken, after what came before it has been folded.

    python -m benchmarks.p16_growth [--upto 50000] [--probe 2000] [--rounds 1] [--dir DIR]
"""

import argparse
import statistics
import time
from collections.abc import Iterator

from benchmarks.lean import Client, Connection, measured
from benchmarks.measuring import Figures, measure
from benchmarks.serving import Serving

BATCH = 500
TIMES = 3


def ladder(upto: int) -> Iterator[int]:
    """1 k, 5 k, 10 k, 50 k and so on, up to a number."""
    step, factor = 1_000, 5
    while step <= upto:
        yield step
        step, factor = step * factor, 7 - factor


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    (connection,) = await client.connect(1)
    await client.register(connection, "p16", BATCH)
    settled, steps = 0, {}
    for step in ladder(options.upto):
        while settled < step:
            await _runs(client, connection, BATCH)
            settled += BATCH
        await _folded(client, connection)
        costs = []
        for _ in range(TIMES):
            with measured(service.pid) as cost:
                for _ in range(options.probe // BATCH):
                    await _runs(client, connection, BATCH)
                await _folded(client, connection)
            costs.append(1e6 * cost.service_s / options.probe)
            settled += options.probe
        steps[str(step)] = {"cpu_us_per_run": round(statistics.median(costs), 1), **await _reads(client, connection)}
    first, last = (steps[str(step)]["cpu_us_per_run"] for step in (min(map(int, steps)), max(map(int, steps))))
    return {"ratio": round(last / first, 3), "settled": settled, "steps": steps}


async def _runs(client: Client, connection: Connection, count: int) -> None:
    """So many runs, submitted, claimed and closed."""
    await client.submit(connection, count, "p16")
    claims = (
        await client.told(connection, client.send("/v1/claims", {"worker_id": "p16", "queues": ["p16"], "max": count}))
    )["claims"]
    ends = [{"run_id": one["run_id"], "fence": one["fence"], "outcome": "succeeded"} for one in claims]
    await client.told(connection, client.send("/v1/closes", {"closes": ends}))


async def _folded(client: Client, connection: Connection) -> None:
    """Return once every read model has what is in the journal."""
    position = await client.position(connection)
    await client.told(connection, client.get(f"/v1/projections?min_position={position}"))


async def _reads(client: Client, connection: Connection) -> dict[str, float]:
    """Milliseconds that reads take: a page of runs, usage, queues, the timeline of the newest run."""
    newest = (await client.told(connection, client.get("/v1/runs?limit=1")))["items"][0]["run_id"]
    paths = {
        "runs_ms": "/v1/runs?limit=50&state=succeeded",
        "usage_ms": "/v1/usage",
        "queues_ms": "/v1/queues",
        "timeline_ms": f"/v1/runs/{newest}/timeline",
    }
    found = {}
    for name, path in paths.items():
        times = []
        for _ in range(5):
            began = time.perf_counter()
            await client.told(connection, client.get(path))
            times.append(1e3 * (time.perf_counter() - began))
        found[name] = round(statistics.median(times), 2)
    return found


if __name__ == "__main__":
    measure(
        "P16",
        "cost of a run as settled runs pile up in the journal",
        one_round,
        rounds=1,
        upto=50_000,
        probe=2_000,
    )
