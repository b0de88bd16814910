"""`workspaces`: what runs stand on, and whether it is still there.

`workspaces` alone lists every one whose body may still be there; with `--run` all that a run ever stood on, with
`--all` those of every run whose bodies are gone, too. Unknown means that nobody can see it right now: it says for how
long, and nothing follows from that. `release` has the body destroyed by whoever provides it.

Units: ages in seconds, minutes, hours or days. Failure: an id that is not known exits with 5, as everywhere.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, cast

import typer
from rich.text import Text

from jackline.cli import show
from jackline.cli.place import Place, callback, verb
from jackline.clock import wall
from jackline.workspaces.models import Workspace, WorkspaceFilter

PANEL = "Looking after it"
SPARED = ("run", "provider")  # what the listing does without on a narrow terminal
COLOURS = {"running": "cyan", "lost": "red", "provision_failed": "red", "destroyed": "default"}
WorkspaceId = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace's id.", show_default=False)]
RunOption = Annotated[str | None, typer.Option("--run", metavar="RUN", help="All that this run ever stood on.")]
PhaseOption = Annotated[str | None, typer.Option("--phase", help="Only in this phase; `teardown`: to be destroyed.")]
ProviderOption = Annotated[str | None, typer.Option("--provider", help="external, directory, process or kubernetes.")]
ScopeOption = Annotated[str | None, typer.Option("--scope", help="Only what one observer watches as a whole.")]
AllOption = Annotated[bool, typer.Option("--all", "-a", help="Also those whose bodies are gone.")]
GoneOption = Annotated[
    bool, typer.Option("--gone", help="You looked: the body that was to be destroyed is no more, and nobody tells.")
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=500, help="How many at most.")]


def join(app: typer.Typer) -> None:
    """Add this verb."""
    group = typer.Typer(help="List what runs stand on; show one, or have its body destroyed.")
    callback(group, invoke_without_command=True)(workspaces)
    verb(group, "", "list")(workspaces_list)
    verb(group, "", "show")(workspaces_show)
    verb(group, "", "release")(workspaces_release)
    app.add_typer(group, name="workspaces", rich_help_panel=PANEL)


def workspaces(
    place: Place,
    context: typer.Context,
    run: RunOption = None,
    phase: PhaseOption = None,
    provider: ProviderOption = None,
    scope: ScopeOption = None,
    all_: AllOption = False,
    limit: LimitOption = 50,
) -> None:
    """List what runs stand on; show one, or have its body destroyed."""
    if context.invoked_subcommand is None:
        workspaces_list(place, run, phase, provider, scope, all_, limit)


def workspaces_list(
    place: Place,
    run: RunOption = None,
    phase: PhaseOption = None,
    provider: ProviderOption = None,
    scope: ScopeOption = None,
    all_: AllOption = False,
    limit: LimitOption = 50,
) -> None:
    """List what runs stand on, in the order in which it was placed."""
    said = {"run_id": run, "phase": phase, "provider": provider, "scope": scope, "all": all_ or None, "limit": limit}
    narrow = cast(WorkspaceFilter, {name: value for name, value in said.items() if value is not None})
    with place.client() as client:
        page = client.workspaces.page(**narrow)
    if place.json:
        show.print_json(page)
        return
    listing(page.items, wall())
    if page.next_cursor:
        show.err.print(f"more than {limit}: raise --limit or narrow the list", style="dim")


def workspaces_show(place: Place, workspace_id: WorkspaceId) -> None:
    """Show one workspace."""
    with place.client() as client:
        found = client.workspaces.show(workspace_id)
    _print(place, found)


def workspaces_release(place: Place, workspace_id: WorkspaceId, gone: GoneOption = False) -> None:
    """Have a workspace's body destroyed: whoever provides it is told until it has been."""
    with place.client() as client:
        found = client.workspaces.say_gone(workspace_id) if gone else client.workspaces.release(workspace_id)
    _print(place, found)


def listing(items: Sequence[Workspace], now: datetime) -> None:
    """A line for each workspace."""
    columns = ("workspace", "run", "provider", "phase", "age", "unknown for", "reason")
    show.listing(columns, [_row(one, now) for one in items], SPARED)


def _row(one: Workspace, now: datetime) -> list[Any]:
    return [
        one.workspace_id,
        one.run_id or "",
        one.provider,
        phase_of(one),
        age(one.placed_at, now),
        age(one.unknown_since, now),
        one.reason or (f"waits for {one.waiting.on}" if one.waiting else ""),
    ]


def phase_of(one: Workspace) -> Text:
    """The phase in its colour, and what is still to be done with the body."""
    text = Text(one.phase, style=COLOURS.get(one.phase, "magenta"))
    if one.awaits_teardown and one.phase != "teardown":
        text.append(", to be destroyed", style="dim")
    return text


def age(since: datetime | None, now: datetime) -> str:
    """How long ago an instant was, in its largest whole unit; empty when there is none."""
    if since is None:
        return ""
    seconds = max(0.0, (now - since).total_seconds())
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length_s:
            return f"{int(seconds // length_s)} {unit}"
    return f"{int(seconds)} s"


def _print(place: Place, one: Workspace) -> None:
    if place.json:
        show.print_json(one)
        return
    ended = one.lost or one.fault
    told: list[tuple[str, Any]] = [("workspace", one.workspace_id), ("run", one.run_id), ("phase", phase_of(one))]
    told += [("reason", one.reason), ("message", ended.message if ended else None)]
    told += [("exit code", one.lost.exit_code if one.lost else None), ("provider", one.provider), ("scope", one.scope)]
    told += [("identity", one.identity), ("incarnation", one.incarnation or None), ("details", one.details)]
    told += [("unknown since", show.moment(one.unknown_since)), ("because", one.unknown_cause)]
    told += [("waits for", one.waiting.on if one.waiting else None), ("spec", one.spec)]
    told += [("placed", show.moment(one.placed_at)), ("attached", show.moment(one.attached_at))]
    told += [("last asserted", show.moment(one.last_asserted_at)), ("destroyed", show.moment(one.destroyed_at))]
    show.fields([*told, ("position", one.position)])
