"""`cancel`, `pause`, `answer`, `resume`, `verdict`, `retry`, `reassign`, `extend`, `abort`: steering runs.

`cancel` takes one run, or filters; what the filters would hit is told by `--dry-run`, and no filter at all is refused.
`extend` and `abort` answer a timeout of a run: the one that is named, else the latest of each kind that nobody has
answered.
"""

import contextlib
from collections.abc import Callable
from typing import Annotated, Final, Literal, cast

import typer

from jackline._sync.client import Client
from jackline.cli import show
from jackline.cli.exits import DONE, NOT_FOUND, REFUSED, USAGE, Fault, complain
from jackline.cli.look import RunId
from jackline.cli.place import Place, verb
from jackline.cli.submit import json_argument, pairs, tell_absence
from jackline.errors import JacklineError, TimeoutAnswered
from jackline.models import CancelFilter, Cancelled, Run

PANEL = "Runs"
TIMEOUT_TOPIC: Final = "run.worker_timeout.v1"
GRACE: Final = "cancel_grace"  # the clock of a run whose holder was asked to end it
ANSWERABLE: Final = ("inactivity", "total")


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    for function in (cancel, pause, answer, resume, verdict, retry, reassign, extend, abort):
        verb(app, PANEL, function.__name__)(function)


def _steer(place: Place, ask: Callable[[Client], Run], asked: str = "") -> None:
    """Ask, and say what the run is then; `asked`: what its holder was asked to do if it still holds it."""
    with place.client() as client:
        run = ask(client)
        if place.json:
            show.print_json(run)
            return
        print(f"{run.run_id} {run.state}", flush=True)
        if asked and run.owner is not None and not run.settled:
            complain(f"asked to {asked}; its holder {show.safe(run.owner)} {_until(client, run.run_id)}")


def _until(client: Client, run_id: str) -> str:
    """Until when the holder of a run that was asked for may save; asking again changes nothing of it."""
    due_at = None
    # The run has been asked already: not learning until when is no failure.
    with contextlib.suppress(JacklineError):
        due_at = next((clock.due_at for clock in client.why(run_id).clocks if clock.name == GRACE), None)
    return f"may still save, until {show.moment(due_at)} at the latest" if due_at else "lets go of it when it has saved"


def cancel(
    place: Place,
    run_id: Annotated[str | None, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)] = None,
    keep_workspaces: Annotated[bool, typer.Option(help="Leave what the run stands on.")] = False,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Every open run of this queue.")] = None,
    leader: Annotated[str | None, typer.Option("--leader", help="Every open run of this leader.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="Every run in this state.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", metavar="K=V", help="With this tag.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which the filters match.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most, the oldest first.")] = 1000,
) -> int:
    """Ask a run, or every run that all of the filters match, to end; a holder may still save what it has."""
    said = {"queue": queue, "leader_id": leader, "state": state, "tags": pairs(tag, "--tag")}
    narrow = cast(CancelFilter, {name: value for name, value in said.items() if value})
    if (run_id is None) == (not narrow) or (run_id is not None and dry_run):
        msg = "cancel takes either one run or filters"
        raise Fault(msg, "name a run, or filter by --queue, --leader, --state, --tag, first with --dry-run", USAGE)
    if run_id is not None:
        _steer(place, lambda client: client.cancel(run_id, keep_workspaces=keep_workspaces), "end")
        return DONE
    with place.client() as client:
        found = client.cancel_many(narrow, dry_run=dry_run, limit=limit)
    _show_cancelled(place, found, dry_run=dry_run)
    return REFUSED if any(one.code for one in found.runs) else DONE


def _show_cancelled(place: Place, found: Cancelled, *, dry_run: bool) -> None:
    if place.json:
        show.print_json(found)
        return
    if found.runs:
        rows = (
            (one.run_id, show.state(one.state or ("would be asked to end" if dry_run else "")), one.detail or "")
            for one in found.runs
        )
        show.table(("run", "state", "refused"), rows)
    told = f"{found.matching} open runs match"
    more = found.matching - len(found.runs)
    show.err.print(f"{told}, {more} more than --limit" if more > 0 else told, style="dim")


def pause(place: Place, run_id: RunId) -> None:
    """Put a run aside until it is resumed."""
    _steer(place, lambda client: client.pause(run_id), "pause")


def answer(
    place: Place,
    run_id: RunId,
    answer: Annotated[str, typer.Argument(metavar="ANSWER", help="JSON, @FILE or -; other text is a string.")],
) -> None:
    """Answer the question that a run waits on."""
    value = json_argument(answer, "the answer", or_text=True)
    _steer(place, lambda client: client.answer(run_id, value))


def resume(place: Place, run_id: RunId) -> None:
    """Bring a paused run back."""
    _steer(place, lambda client: client.resume(run_id))


def verdict(
    place: Place,
    run_id: RunId,
    judgement: Annotated[str, typer.Argument(metavar="succeeded|failed")],
    result: Annotated[str | None, typer.Option(help="The result: JSON, @FILE or -.")] = None,
) -> None:
    """Judge a run that waits for a verdict."""
    value = json_argument(result, "--result", or_text=True) if result is not None else None
    _steer(place, lambda client: client.verdict(run_id, judgement, value))


def retry(
    place: Place,
    run_id: RunId,
    force: Annotated[bool, typer.Option("--force", help="Although the run has not ended: both will go on.")] = False,
) -> int:
    """Submit a run that has ended again, as a new run linked to it; prints the new id."""
    with place.client() as client:
        run = client.run(run_id)
        if not run.settled and not force:
            complain(
                f"run {run_id} has not ended, it is {run.state}: a retry would be a second run beside it",
                f"`jackline why {run_id}` says what it waits for; --force submits the second one all the same",
            )
            return REFUSED
        receipt = client.retry(run_id)
        if not run.settled:
            complain(f"run {run_id} is {run.state} and goes on beside the new one")
    if place.json:
        show.print_json(receipt)
    else:
        print(receipt.run_id)
    return DONE


def reassign(
    place: Place,
    run_id: RunId,
    leader_id: Annotated[str, typer.Argument(metavar="LEADER", help="Whose run it is from now on.")],
    revision: Annotated[int | None, typer.Option(help="Refuse if the run is at another revision.")] = None,
) -> None:
    """Make a run another leader's; its absence then counts from now."""
    with place.client() as client:
        at = client.run(run_id).revision if revision is None else revision
        run = client.reassign(run_id, leader_id, at)
        if place.json:
            show.print_json(run)
            return
        print(f"{run.run_id} {run.state}", flush=True)
        if not run.settled and client.show_leader(leader_id).connections == 0:
            tell_absence(client, run_id)


FactId = Annotated[str | None, typer.Option("--fact", metavar="FACT_ID", help="Which timeout; default: the latest.")]


def extend(place: Place, run_id: RunId, fact: FactId = None) -> None:
    """Answer a run's timeout: let it go on.

    A total clock starts anew, whole. Of the silence that was told as inactivity nothing is told again: the next stretch
    begins with the next sign of work.
    """
    _steer(place, lambda client: _acknowledge(client, run_id, fact, "extend"))


def abort(place: Place, run_id: RunId, fact: FactId = None) -> None:
    """Answer a run's timeout: end the run as aborted."""
    _steer(place, lambda client: _acknowledge(client, run_id, fact, "abort"))


def _acknowledge(client: Client, run_id: str, fact_id: str | None, reply: Literal["extend", "abort"]) -> Run:
    if fact_id is not None:
        return client.acknowledge_timeout(run_id, fact_id, reply)
    latest = {
        fact.data.get("kind"): fact
        for fact in client.facts(run_id)
        if fact.topic == TIMEOUT_TOPIC and fact.data.get("kind") in ANSWERABLE
    }
    answered: TimeoutAnswered | None = None
    for fact in sorted(latest.values(), key=lambda one: one.position, reverse=True):
        try:
            return client.acknowledge_timeout(run_id, fact.fact_id, reply)
        except TimeoutAnswered as refusal:
            answered = answered or refusal
    if answered is not None:
        raise answered
    msg = f"run {run_id} has no timeout to answer"
    raise Fault(msg, "`jackline why RUN` shows which clocks run", NOT_FOUND)
