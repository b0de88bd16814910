"""`queues`, `keys`: looking after a service."""

from typing import Annotated, Any

import typer

from jackline.cli import show
from jackline.cli.exits import USAGE, Fault
from jackline.cli.place import Place, callback, verb
from jackline.keys import Key

PANEL = "Looking after it"
RATES_OVER_S = 300


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    queues = typer.Typer(help="List queues, or set one's limits.")
    callback(queues, invoke_without_command=True)(queues_alone)
    verb(queues, "", "list")(queues_list)
    verb(queues, "", "set")(queues_set)
    app.add_typer(queues, name="queues", rich_help_panel=PANEL)
    keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke keys.")
    verb(keys, "", "create")(keys_create)
    verb(keys, "", "list")(keys_list)
    verb(keys, "", "revoke")(keys_revoke)
    app.add_typer(keys, name="keys", rich_help_panel=PANEL)


def queues_alone(place: Place, context: typer.Context) -> None:
    """List queues, or set one's limits."""
    if context.invoked_subcommand is None:
        queues_list(place)


def queues_list(place: Place) -> None:
    """List queues: what waits in each and since when, its limits, and how fast runs come and go."""
    with place.client() as client:
        found = client.queues()
    if place.json:
        show.print_json(found)
        return
    columns = ("queue", "queued", "due", "oldest waits", "leases", "limit", "per key", "in/min", "out/min")
    show.table(columns, (_queue_row(one) for one in found))
    if found:
        show.err.print(
            f"in and out: runs submitted and settled, over the last {RATES_OVER_S // 60} minutes", style="dim"
        )


def _queue_row(queue: dict[str, Any]) -> tuple[Any, ...]:
    rate: dict[str, Any] = next((one for one in queue["rates"] if one["window_s"] == RATES_OVER_S), {})
    waits = queue["oldest_waits_s"]
    return (
        queue["queue"],
        queue["queued"],
        queue["due"],
        "" if waits is None else f"{waits:,.0f} s",
        queue["leases"],
        "none" if queue["max_leases"] is None else queue["max_leases"],
        queue["max_per_key"],
        f"{rate.get('submitted_per_min', 0):g}",
        f"{rate.get('settled_per_min', 0):g}",
    )


def queues_set(
    place: Place,
    queue: Annotated[str, typer.Argument(metavar="QUEUE")],
    max_leases: Annotated[str | None, typer.Option(metavar="N|none", help="Runs at a time; none: no limit.")] = None,
    max_per_key: Annotated[
        str | None, typer.Option(metavar="N|none", help="Runs at a time that share a concurrency key.")
    ] = None,
) -> None:
    """Set a queue's limits; one that is not named stays as it is, and lowering one revokes nothing."""
    said = {"max_leases": max_leases, "max_per_key": max_per_key}
    named = {name: _limit(name, text) for name, text in said.items() if text is not None}
    if not named:
        msg = "there is no limit to set"
        raise Fault(msg, "name --max-leases, --max-per-key, or both", USAGE)
    with place.client() as client:
        now = client.queue(queue)
        told = client.set_queue(queue, **{name: named.get(name, now.get(name)) for name in said})
    if place.json:
        show.print_json(told)
    else:
        limits = (f"{name} {'none' if told.get(name) is None else told[name]}" for name in said)
        print(f"{queue}: {', '.join(limits)}")


def _limit(name: str, text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal() or not text.isascii():
        msg = f"--{name.replace('_', '-')} {text!r} is neither a whole number without a sign nor none"
        raise Fault(msg, code=USAGE)
    return int(text)


def keys_create(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="For people.")],
    role: Annotated[str, typer.Option(help="leader, worker, reader, operator or admin.")],
    leader: Annotated[list[str] | None, typer.Option("--leader", help="Only these leaders; repeatable.")] = None,
    worker: Annotated[list[str] | None, typer.Option("--worker", help="Only these workers; repeatable.")] = None,
    not_after: Annotated[str | None, typer.Option(metavar="INSTANT", help="Opens nothing from then on.")] = None,
) -> None:
    """Create a key; it is shown this once."""
    with place.client() as client:
        key = client.create_key(name, role, leader_ids=leader, worker_ids=worker, not_after=not_after)
    if place.json:
        show.print_json(key)
    else:
        print(key.key)
        show.err.print(f"{key.role} key {key.key_id}; it is not shown again", style="dim")


def keys_list(place: Place) -> None:
    """List keys, without their secrets."""
    with place.client() as client:
        found = client.keys()
    if place.json:
        show.print_json(found)
        return
    rows = (
        (one.key_id, one.name, one.role, _bound(one), show.moment(one.not_after), show.moment(one.revoked_at))
        for one in found
    )
    show.table(("key", "name", "role", "only as", "not after", "revoked"), rows)


def _bound(key: Key) -> str:
    """The leaders and workers that a key speaks for, where those are not all."""
    bound = {"leader": key.leader_ids, "worker": key.worker_ids}
    return show.brief("; ".join(f"{what} {', '.join(ids)}" for what, ids in bound.items() if ids is not None))


def keys_revoke(place: Place, key_id: Annotated[str, typer.Argument(metavar="KEY_ID")]) -> None:
    """Revoke a key."""
    with place.client() as client:
        client.revoke_key(key_id)
    if not place.json:
        print(f"{key_id} revoked")
