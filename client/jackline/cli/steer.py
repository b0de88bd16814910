"""`cancel`, `pause`, `answer`, `resume`, `verdict`, `retry`: steering runs."""

from collections.abc import Callable
from typing import Annotated

import typer

from jackline._sync.client import Client
from jackline.cli import show
from jackline.cli.look import RunId
from jackline.cli.place import Place, verb
from jackline.cli.submit import json_argument
from jackline.models import Run

PANEL = "Runs"


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    for function in (cancel, pause, answer, resume, verdict, retry):
        verb(app, PANEL, function.__name__)(function)


def _steer(place: Place, ask: Callable[[Client], Run]) -> None:
    with place.client() as client:
        run = ask(client)
    if place.json:
        show.print_json(run)
    else:
        print(f"{run.run_id} {run.state}")


def cancel(
    place: Place,
    run_id: RunId,
    keep_workspaces: Annotated[bool, typer.Option(help="Leave what the run stands on.")] = False,
) -> None:
    """Ask a run to end; its holder may still save what it has."""
    _steer(place, lambda client: client.cancel(run_id, keep_workspaces=keep_workspaces))


def pause(place: Place, run_id: RunId) -> None:
    """Put a run aside until it is resumed."""
    _steer(place, lambda client: client.pause(run_id))


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


def retry(place: Place, run_id: RunId) -> None:
    """Submit a run again, as a new run linked to it; prints the new id."""
    with place.client() as client:
        receipt = client.retry(run_id)
    if place.json:
        show.print_json(receipt)
    else:
        print(receipt.run_id)
