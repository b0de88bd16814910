"""`timeline`, `usage`, `effects`: what happened, how much it used, and what is still to be found out."""

import itertools
from datetime import date, datetime
from typing import Annotated, Any

import typer

from jackline.cli import show
from jackline.cli.exits import USAGE, Fault
from jackline.cli.place import Place, verb

PANEL = "Runs"


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    for name, function in (("timeline", timeline), ("effects", effects), ("usage", usage)):
        verb(app, PANEL, name)(function)


def timeline(
    place: Place, run_id: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]
) -> None:
    """Tell what happened to a run, across its streams, and how long each state lasted."""
    with place.client() as client:
        found = client.timeline(run_id)
    if place.json:
        show.print_json(found)
        return
    rows = (
        (
            one["at"],
            one["topic"].rpartition(".")[0],
            one["state"] or "",
            "" if one["lasted_s"] is None else f"{one['lasted_s']:,.3f} s",
            "" if one["fence"] is None else one["fence"],
            one["worker"] or "",
            one["detail"] or "",
        )
        for one in found
    )
    show.table(("at", "what", "state", "lasted", "fence", "worker", "detail"), rows)


def effects(
    place: Place,
    state: Annotated[
        str | None, typer.Option(help="Only those intended, completed, failed, ambiguous or reconciled.")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only of runs of this queue.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 500,
) -> None:
    """List effects of all runs, the oldest first; the ambiguous ones want somebody to look.

    What was found out is said with `jackline effect reconcile KEY --run RUN --done` or `--not-done`.
    """
    with place.client() as client:
        found = list(itertools.islice(client.every_effect(state=state, queue=queue), limit + 1))
    shown = found[:limit]
    if place.json:
        show.print_json(shown)
        return
    show.table(("run", "name", "key", "state", "fence", "changed"), map(_effect, shown))
    if len(found) > limit:
        show.err.print(f"more than {limit}: raise --limit or narrow the list", style="dim")


def usage(
    place: Place,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only of this queue.")] = None,
    day_from: Annotated[str | None, typer.Option("--from", metavar="DAY", help="From this day (UTC) on.")] = None,
    day_to: Annotated[str | None, typer.Option("--to", metavar="DAY", help="Up to this day (UTC).")] = None,
) -> None:
    """Tell how much was used, by queue and day (UTC): attempts, their hours, and how they ended."""
    first, last = _day("--from", day_from), _day("--to", day_to)
    with place.client() as client:
        found = client.usage(queue=queue, day_from=first, day_to=last)
    if place.json:
        show.print_json(found)
        return
    columns = (
        "day",
        "queue",
        "runs",
        "attempts",
        "hours",
        "closed",
        "failed",
        "given back",
        "lost",
        "revoked",
        "ground lost",
    )
    show.table(columns, (_used(one) for one in found))


def _effect(one: dict[str, Any]) -> tuple[Any, ...]:
    found = {"done": " (done)", "not_done": " (not done)"}.get(one["resolution"] or "", "")
    changed = show.moment(datetime.fromisoformat(one["changed_at"]))
    return one["run_id"], one.get("name") or "", one["key"], f"{one['state']}{found}", one["fence"], changed


def _used(one: dict[str, Any]) -> tuple[Any, ...]:
    ends = ("closed_succeeded", "closed_failed", "given_back", "lost", "revoked", "workspaces_lost")
    hours = f"{one['seconds'] / 3600:,.2f}"
    return one["day"], one["queue"], one["submitted"], one["attempts"], hours, *(one[end] for end in ends)


def _day(option: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        msg = f"{option} {text[:40]!r} is not a day"
        raise Fault(msg, "write it as 2030-01-31", USAGE) from error
