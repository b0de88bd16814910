"""P8: every open run of one leader settled after its grace: the fact first, each re-checked, one append each.

A leader is present by a heartbeat session, submits its runs in one batch, and leaves. Its absence begins there; after
the grace (1 s here) its runs are settled. Measured from the fact that the leader is gone to the last settlement, by
the instants in the journal, and how late the first of these came after the grace was over.

    python -m benchmarks.p8_settle [--runs 1000] [--rounds 3] [--dir DIR]
"""

import argparse
import asyncio
from datetime import datetime
from typing import Any

from benchmarks.lean import Client, Connection
from benchmarks.measuring import Figures, measure
from benchmarks.serving import Serving

GRACE_S = 1.0
LIMIT_S = 60.0


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    connection = (await client.connect(1))[0]
    leader = f"p8-{number}"
    session = f"/v1/leaders/{leader}/sessions/only"
    await _asked(client, connection, "PUT", session, {"ttl_s": 60})
    wishes = [{"leader_id": leader, "queue": leader} for _ in range(options.runs)]
    for first in range(0, options.runs, 1_000):
        await _asked(client, connection, "POST", "/v1/runs/batch", {"runs": wishes[first : first + 1_000]})
    await _asked(client, connection, "DELETE", session, {})
    last = await _last_settled(client, connection, leader)
    facts = await _asked(client, connection, "GET", f"/v1/runs/{last['run_id']}/facts", None)
    gone = next(fact for fact in facts["facts"] if fact["topic"] == "run.worker_timeout.v1")
    since = datetime.fromisoformat(gone["data"]["marks"]["zero_since"])
    first_at = await _first_settled(client, connection, leader)
    settled_at = datetime.fromisoformat(last["settled_at"])
    return {
        "first_after_grace_s": round((first_at - since).total_seconds() - GRACE_S, 3),
        "all_after_first_s": round((settled_at - first_at).total_seconds(), 3),
        "all_after_grace_s": round((settled_at - since).total_seconds() - GRACE_S, 3),
    }


async def _asked(client: Client, connection: Connection, method: str, path: str, body: Any) -> Any:
    request = client.get(path) if method == "GET" else client.send(path, body, method.encode())
    return await client.told(connection, request)


async def _last_settled(client: Client, connection: Connection, leader: str) -> Any:
    """The run that was settled last, once none is open."""
    async with asyncio.timeout(LIMIT_S):
        while (await _asked(client, connection, "GET", f"/v1/leaders/{leader}", None))["open_runs"]:
            await asyncio.sleep(0.05)
    path = f"/v1/runs?leader_id={leader}&state=cancelled&sort=-settled_at&limit=1"
    return (await _asked(client, connection, "GET", path, None))["items"][0]


async def _first_settled(client: Client, connection: Connection, leader: str) -> datetime:
    path = f"/v1/runs?leader_id={leader}&state=cancelled&sort=settled_at&limit=1"
    page = await _asked(client, connection, "GET", path, None)
    return datetime.fromisoformat(page["items"][0]["settled_at"])


if __name__ == "__main__":
    timers = {"JACKLINE_LEADER_GRACE_S": str(GRACE_S)}
    measure("P8", "open runs of one leader settled after its grace", one_round, timers=timers, runs=1_000)
