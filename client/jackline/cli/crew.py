"""`leaders` and `workers`: who wants runs and who acts for them.

`workers` alone lists them; `drain`, `quarantine` and `release` change what a worker is granted, and never take away
what it holds.
"""

from datetime import datetime
from typing import Annotated, Any

import typer

from jackline.cli import show
from jackline.cli.place import Place, callback, verb
from jackline.clock import wall
from jackline.models import WorkerInfo

PANEL = "Looking after it"
WorkerId = Annotated[str, typer.Argument(metavar="WORKER", help="The worker's id.", show_default=False)]


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    verb(app, PANEL, "leaders")(leaders)
    group = typer.Typer(help="List workers; drain one, put it into quarantine, or release it.")
    callback(group, invoke_without_command=True)(workers)
    verb(group, "", "list")(workers_list)
    verb(group, "", "drain")(drain)
    verb(group, "", "quarantine")(quarantine)
    verb(group, "", "release")(release)
    app.add_typer(group, name="workers", rich_help_panel=PANEL)


def leaders(
    place: Place,
    leader_id: Annotated[str | None, typer.Argument(metavar="LEADER", show_default=False)] = None,
) -> None:
    """List leaders that are connected or have open runs, or show one."""
    with place.client() as client:
        found = client.leaders() if leader_id is None else [client.show_leader(leader_id)]
    if place.json:
        show.print_json(found if leader_id is None else found[0])
        return
    rows = (
        (one.leader_id, one.connections, show.moment(one.zero_since) if not one.connections else "", one.open_runs)
        for one in found
    )
    show.table(("leader", "connections", "absent since", "open runs"), rows)


def workers(place: Place, context: typer.Context) -> None:
    """List workers; drain one, put it into quarantine, or release it."""
    if context.invoked_subcommand is None:
        workers_list(place)


def workers_list(
    place: Place,
    state: Annotated[
        str | None, typer.Option(help="Only those that are active, draining, quarantined, left or gone.")
    ] = None,
) -> None:
    """List workers that are registered, or those in one state, with what came of their attempts."""
    with place.client() as client:
        found = client.workers(state)
    if place.json:
        show.print_json([worker.raw for worker in found])
        return
    rows = (_row(one, wall()) for one in found)
    show.table(("worker", "state", "slots", "last heard", "labels", "attempts", "ok", "failed", "lost"), rows)
    for one in found:
        if told := _aside(one, wall()):
            show.err.print(show.safe(told), style="dim", soft_wrap=True)


def _aside(one: WorkerInfo, now: datetime) -> str:
    """Why a worker is granted nothing, until when, and what ends it; empty for one that is not quarantined."""
    quarantine = one.raw.get("quarantine")
    if not quarantine:
        return ""
    until = datetime.fromisoformat(quarantine["until"])
    ends = "until its one probing run ends without blame"
    if until > now:
        ends = f"until {show.moment(until)}, then it may have one probing run in a free slot"
    return f"{one.worker_id} is quarantined: {quarantine['reason']}; {ends}; `jackline workers release {one.worker_id}`"


def _row(one: WorkerInfo, now: datetime) -> tuple[Any, ...]:
    """A worker in a line; that it is active says little when it was last heard long ago, so that stands beside it."""
    heard = show.ago(one.last_seen_at, now)
    shown = (one.worker_id, one.state, f"{one.slots_used}/{one.slots}", heard, show.brief(one.labels or ""))
    return (*shown, *_counts(one.raw))


def _counts(worker: Any) -> tuple[Any, ...]:
    counts = worker.get("counts", {})
    return tuple(counts.get(name, "") for name in ("attempts", "succeeded", "failed", "lost"))


def drain(place: Place, worker_id: WorkerId) -> None:
    """Grant a worker no more runs; what it holds goes on. It ends when the worker registers again."""
    with place.client() as client:
        client.drain_worker(worker_id)
    _told(place, worker_id, "draining")


def quarantine(
    place: Place,
    worker_id: WorkerId,
    reason: Annotated[str, typer.Option(help="Why, for whoever looks.")] = "put aside by an operator",
) -> None:
    """Grant a worker no more runs until it is released or has proved itself with one."""
    with place.client() as client:
        client.quarantine(worker_id, reason)
    _told(place, worker_id, "quarantined")


def release(place: Place, worker_id: WorkerId) -> None:
    """End a worker's quarantine."""
    with place.client() as client:
        client.release(worker_id)
    _told(place, worker_id, "released")


def _told(place: Place, worker_id: str, what: str) -> None:
    if place.json:
        show.print_json({"worker_id": worker_id, "done": what})
    else:
        print(f"{worker_id} {what}")
