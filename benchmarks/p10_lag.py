"""P10: how far the stored read models are behind the journal while facts come at a steady rate.

Runs are submitted over HTTP on a fixed schedule, in batches of so many that the rate comes out. Every ``--every``
milliseconds a reader for each of ``LISTS`` takes the position of the last answer and asks a list that is narrowed to
nothing for that position (``min_position``): from the answer to the submission until the read model has it is the lag,
the reader's own request included. The other models move with these, in the same transactions. A batch that is answered
later than it was due by more than a second says that the rate was not reached, and fails the measurement.

    python -m benchmarks.p10_lag [--rate 5000] [--seconds 10] [--batch 100] [--every 20] [--rounds 3] [--dir DIR]
"""

import argparse
import asyncio
import itertools
import time

from benchmarks.lean import Client, Connection, measured
from benchmarks.measuring import Figures, measure, quantiles
from benchmarks.serving import Serving

LISTS = ("runs?queue=none", "usage?queue=none", "effects?queue=none", "workers?state=gone", "queues", "leaders")
LATE_S = 1.0
"""A batch that is answered later than this after it was due: the facts did not come at the rate that was asked for."""


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    writer, *readers = await client.connect(1 + len(LISTS))
    answered: list[tuple[int, float]] = []
    lags: list[float] = []
    done = asyncio.Event()

    late: list[float] = []

    async def write() -> None:
        began = time.perf_counter()
        body = client.send("/v1/runs/batch", {"runs": [{"queue": f"p10-{number}"}] * options.batch})
        for batch in range(options.rate * options.seconds // options.batch):
            due = began + batch * options.batch / options.rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            told = await client.told(writer, body)
            now = time.perf_counter()
            answered.append((told["position"], now))
            late.append(now - due)
        done.set()

    async def read(connection: Connection, path: str) -> None:
        while not done.is_set():
            await asyncio.sleep(options.every / 1e3)
            if not answered:
                continue
            position, at = answered[-1]
            mark = "&" if "?" in path else "?"
            await client.told(connection, client.get(f"/v1/{path}{mark}min_position={position}"))
            lags.append(time.perf_counter() - at)

    with measured(service.pid) as cost:
        await asyncio.gather(write(), *itertools.starmap(read, zip(readers, LISTS, strict=True)))
    share = round(cost.service_s / cost.wall_s, 3)
    return {
        "lag": quantiles(lags),
        "at_that_rate": max(late) <= LATE_S,
        "asked": len(lags),
        "latest_answer_s": round(max(late), 3),
        "share_of_a_core": share,
    }


if __name__ == "__main__":
    measure(
        "P10",
        "lag of the stored read models at a steady rate of facts",
        one_round,
        rounds=3,
        rate=5_000,
        seconds=10,
        batch=100,
        every=20,
    )
