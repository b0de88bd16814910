"""`submit`: wanting a command to be run. What it says of a run, `run` says too, and follows it: see `led`.

The command goes into the run's payload as it was written, `{"command": [...], "env": {...}, "cwd": ...}`; a worker
started by `jackline work` executes that. Everything after `--`, or after the first word that is not an option, is the
command's.
"""

import contextlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from jackline._sync.client import Client
from jackline.cli import show
from jackline.cli.exits import USAGE, Fault, complain
from jackline.cli.place import Options, Place, verb
from jackline.errors import JacklineError
from jackline.models import PolicyOptions, Submission

PANEL = "Runs"
COMMAND_SETTINGS = {"context_settings": {"allow_interspersed_args": False}}


@dataclass(frozen=True)
class Wanted(Options):
    """What a submission says beside its command."""

    queue: Annotated[str, typer.Option("--queue", "-q", help="The queue to wait in.")] = "default"
    name: Annotated[str | None, typer.Option("--name", "-n", help="A name for people.")] = None
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", metavar="K=V", help="For people and filters.")] = None
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="What a worker must have.")] = None
    priority: Annotated[int, typer.Option("--priority", help="High goes first.")] = 0
    after: Annotated[str | None, typer.Option("--after", metavar="INSTANT", help="Not before (RFC 3339).")] = None
    leader: Annotated[str | None, typer.Option("--leader", help="The leader that wants it.")] = None
    concurrency_key: Annotated[str | None, typer.Option(help="Runs that share it are limited together.")] = None
    idempotency_key: Annotated[str | None, typer.Option(help="A repeat under it gets the first receipt.")] = None
    env: Annotated[list[str] | None, typer.Option("--env", "-e", metavar="K=V", help="For the command.")] = None
    cwd: Annotated[str | None, typer.Option("--cwd", help="Where it runs; default: a directory of its own.")] = None
    here: Annotated[bool, typer.Option("--here", help="Run it in the current directory (same machine).")] = False
    payload: Annotated[str | None, typer.Option("--payload", metavar="JSON|@FILE", help="More members.")] = None
    max_attempts: Annotated[int | None, typer.Option(help="Attempts that may die or fail. [3]")] = None
    lease_ttl: Annotated[float | None, typer.Option("--lease-ttl", metavar="SECONDS", help="[60]")] = None
    max_hold: Annotated[float | None, typer.Option("--max-hold", metavar="SECONDS", help="Slice length.")] = None
    retry_base: Annotated[float | None, typer.Option("--retry-base", metavar="SECONDS", help="[10]")] = None
    retry_cap: Annotated[float | None, typer.Option("--retry-cap", metavar="SECONDS", help="[300]")] = None
    verdict_by: Annotated[str | None, typer.Option(metavar="worker|leader", help="Default: worker.")] = None
    on_leader_gone: Annotated[str | None, typer.Option(metavar="cancel|keep|park", help="Default: cancel.")] = None
    on_workspace_lost: Annotated[
        str | None, typer.Option(metavar="settle_lost|retry_fresh|park", help="Default: settle_lost.")
    ] = None
    on_quiet: Annotated[
        str | None,
        typer.Option(metavar="report|fail_attempt", help="Default: report; fail_attempt quarantines the worker, too."),
    ] = None
    quiet_after: Annotated[float | None, typer.Option("--quiet-after", metavar="SECONDS", help="[300]")] = None
    total_after: Annotated[float | None, typer.Option("--total-after", metavar="SECONDS", help="[1800]")] = None

    def submission(self, command: list[str]) -> Submission:
        """The submission, without what was not said."""
        said: dict[str, Any] = {
            "queue": self.queue,
            "name": self.name,
            "tags": pairs(self.tag, "--tag"),
            "labels": pairs(self.label, "--label"),
            "priority": self.priority,
            "run_after": self.after,
            "leader_id": self.leader,
            "concurrency_key": self.concurrency_key,
            "idempotency_key": self.idempotency_key,
            "policy": self._policy(),
            "payload": self._payload(command),
        }
        return cast(Submission, {name: value for name, value in said.items() if value not in (None, {})})

    def _policy(self) -> PolicyOptions:
        said = {
            "max_attempts": self.max_attempts,
            "lease_ttl_s": self.lease_ttl,
            "max_hold_s": self.max_hold,
            "retry_base_s": self.retry_base,
            "retry_cap_s": self.retry_cap,
            "verdict_by": self.verdict_by,
            "on_leader_gone": self.on_leader_gone,
            "on_workspace_lost": self.on_workspace_lost,
            "on_quiet": self.on_quiet,
            "quiet_after_s": self.quiet_after,
            "total_after_s": self.total_after,
        }
        return cast(PolicyOptions, {name: value for name, value in said.items() if value is not None})

    def _payload(self, command: list[str]) -> Any:
        payload = json_argument(self.payload, "--payload") if self.payload else {}
        if not isinstance(payload, dict):
            if command:
                msg = "a --payload that is not an object cannot go with a command"
                raise Fault(msg, "leave the command out, or make the payload an object", USAGE)
            return payload
        cwd = os.getcwd() if self.here else self.cwd
        more = {"command": command, "env": pairs(self.env, "--env"), "cwd": cwd}
        return payload | {name: value for name, value in more.items() if value}


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    verb(app, PANEL, "submit", **COMMAND_SETTINGS)(submit)


def submit(place: Place, wanted: Wanted, command: Annotated[list[str] | None, typer.Argument()] = None) -> int:
    """Submit a command as a run; a worker takes it from there."""
    submission = wanted.submission(needed(wanted, command))
    with place.client() as client:
        receipt = client.submit(**submission)
        if place.json:
            show.print_json(receipt)
        else:
            print(receipt.run_id, flush=True)
        if receipt.leader is not None and not receipt.leader.connections:
            tell_absence(client, receipt.run_id)
    return 0


def tell_absence(client: Client, run_id: str) -> None:
    """Say until when the leader has to be there, because the run ends without it."""
    with contextlib.suppress(JacklineError):  # the run is submitted, whatever can be said about it
        run = client.run(run_id)
        due = next((one.due_at for one in client.why(run_id).clocks if one.name == "leader_grace"), None)
        after = {"cancel": "settled as cancelled", "park": "parked"}.get(str(run.policy.get("on_leader_gone")))
        if due is not None and after is not None:
            complain(
                f"leader {run.leader_id!r} is not connected: unless it is by {show.moment(due)}, the run is {after}",
                f"`jackline attach {run_id}` is being its leader",
            )


def needed(wanted: Wanted, command: list[str] | None) -> list[str]:
    """The command, or none when there is a payload; neither is a fault."""
    if not command and wanted.payload is None:
        msg = "there is no command"
        raise Fault(msg, "say what to run after `--`, for example: jackline submit -- make", USAGE)
    return command or []


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """`K=V` options as a mapping."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            msg = f"{option} {text!r} is not of the form K=V"
            raise Fault(msg, code=USAGE)
        found[name] = value
    return found


def json_argument(text: str, what: str, *, or_text: bool = False) -> Any:
    """JSON given outright, as `@FILE`, or as `-` for standard input; with `or_text`, other text is a string."""
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            msg = f"{what}: {text[1:]} cannot be read: {error.strerror}"
            raise Fault(msg, code=USAGE) from error
    try:
        return json.loads(text)
    except ValueError as error:
        if or_text:
            return text
        msg = f"{what} is not JSON: {error}"
        raise Fault(msg, code=USAGE) from error
