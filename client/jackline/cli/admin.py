"""`queues`, `keys`: looking after a service."""

from typing import Annotated

import typer

from jackline.cli import show
from jackline.cli.exits import USAGE, Fault
from jackline.cli.place import Place, verb

PANEL = "Looking after it"


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    queues = typer.Typer(no_args_is_help=True, help="List queues, or set one's limits.")
    verb(queues, "", "list")(queues_list)
    verb(queues, "", "set")(queues_set)
    app.add_typer(queues, name="queues", rich_help_panel=PANEL)
    keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke keys.")
    verb(keys, "", "create")(keys_create)
    verb(keys, "", "list")(keys_list)
    verb(keys, "", "revoke")(keys_revoke)
    app.add_typer(keys, name="keys", rich_help_panel=PANEL)


def queues_list(place: Place) -> None:
    """List queues with their limits and what is in them."""
    with place.client() as client:
        found = client.queues()
    if place.json:
        show.print_json(found)
        return
    columns = list(dict.fromkeys(["queue", *(name for one in found for name in one)]))
    show.table(columns, ([show.brief(one.get(name)) for name in columns] for one in found))


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
        msg = f"--{name.replace('_', '-')} {text!r} is neither a number nor none"
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
        (one.key_id, one.name, one.role, show.moment(one.not_after), "revoked" if one.revoked_at else "")
        for one in found
    )
    show.table(("key", "name", "role", "not after", ""), rows)


def keys_revoke(place: Place, key_id: Annotated[str, typer.Argument(metavar="KEY_ID")]) -> None:
    """Revoke a key."""
    with place.client() as client:
        client.revoke_key(key_id)
    if not place.json:
        print(f"{key_id} revoked")
