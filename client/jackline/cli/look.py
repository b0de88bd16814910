"""`ls`, `show`, `why`, `logs`, `facts`: looking at runs."""

from collections.abc import Iterator
from typing import Annotated, cast

import typer

from jackline._sync.client import Client
from jackline.cli import explain, show
from jackline.cli.exits import DONE, FAILED, GOING, OUTCOME, complain
from jackline.cli.following import follow_output, print_chunk, trying_again
from jackline.cli.place import Place, run_async, verb
from jackline.cli.submit import pairs
from jackline.models import Fact, RunFilter

PANEL = "Runs"
At = Annotated[
    str | None,
    typer.Option("--at", metavar="POSITION|INSTANT", help="As of then: a position, or an instant with its offset."),
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    for name, function in (("ls", ls), ("show", show_run), ("why", why), ("logs", logs), ("facts", facts)):
        verb(app, PANEL, name)(function)


def ls(
    place: Place,
    state: Annotated[str | None, typer.Option(help="Only runs in this state.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only runs of this queue.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", "-t", metavar="K=V", help="Only runs with this tag.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only runs that this worker holds.")] = None,
    leader: Annotated[str | None, typer.Option(help="Only runs of this leader.")] = None,
    search: Annotated[str | None, typer.Option("--search", help="Only runs whose name or id holds this text.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
    at: At = None,
) -> None:
    """List runs, the newest first."""
    said = {"state": state, "queue": queue, "owner": owner, "leader_id": leader, "q": search, "limit": limit, "at": at}
    said["tag"] = ":".join(next(iter(pairs([tag], "--tag").items()))) if tag else None
    narrow = cast(RunFilter, {name: value for name, value in said.items() if value is not None})
    with place.client() as client:
        page = client.runs(**narrow)
    if place.json:
        document = show.plain(page)
        for run in document["items"]:
            del run["payload"]  # no list holds it, and null would say that there is none
        show.print_json(document)
        return
    show.runs(page.items)
    show.as_of(page.as_of)
    if page.next_cursor:
        show.err.print(f"more than {limit}: raise --limit or narrow the list", style="dim")


def show_run(
    place: Place,
    run_id: RunId,
    wait: Annotated[float | None, typer.Option("--wait", metavar="SECONDS", help="Wait for its end.")] = None,
    at: At = None,
) -> int:
    """Show one run; with --wait, exit as it did, or with 7 when it has not ended in time."""
    if wait is not None and at is not None:
        message = "what was does not change: give --wait or --at"
        raise typer.BadParameter(message)
    with place.client() as client:
        effects = [] if place.json or at is not None else client.effects(run_id)
        if wait is None:
            run = client.run(run_id, at=at)
        else:
            with show.Waiting(f"waiting for the end of {show.safe(run_id)}"):
                run = client.wait(run_id, wait)
    if place.json:
        show.print_json(run)
    else:
        show.one_run(run, effects)
    if wait is None:
        return DONE
    if not run.settled:
        complain(f"run {run.run_id} has not ended within {wait:g} s: it is {run.state}", "wait longer, or ask `why`")
        return GOING
    return OUTCOME.get(run.state, FAILED)


def why(place: Place, run_id: RunId, at: At = None) -> None:
    """Tell why a run is in its state: the facts, the evidence, the clocks, what it waits for, and what comes next."""
    with place.client() as client:
        answer = client.why(run_id, at=at)
    if place.json:
        show.print_json(answer)
    else:
        explain.why(run_id, answer)


def logs(
    place: Place,
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has settled.")] = False,
) -> None:
    """Print a run's output, of all its attempts."""
    if follow:
        run_async(_follow(place, run_id))
        return
    with place.client() as client:
        for chunk in client.output_so_far(run_id):
            if place.json:
                show.print_json(chunk, line=True)
            else:
                print_chunk(chunk)


async def _follow(place: Place, run_id: str) -> None:
    async with place.async_client() as client:
        await follow_output(client, run_id, json=place.json)


def facts(
    place: Place,
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has settled.")] = False,
    after: Annotated[int | None, typer.Option("--after", metavar="POSITION", help="Only later ones.")] = None,
) -> None:
    """Print the facts of a run, one a line, in the order of the journal."""
    with place.client() as client:
        for fact in _facts(client, run_id, after, follow=follow):
            if place.json:
                show.print_json(fact, line=True)
            else:
                print(show.fact_line(fact), flush=True)


def _facts(client: Client, run_id: str, after: int | None, *, follow: bool) -> Iterator[Fact]:
    if follow:
        return client.follow(run_id, after=after, on_trouble=trying_again)
    return client.facts(run_id, after=after)
