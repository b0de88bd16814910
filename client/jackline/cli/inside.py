"""`partial`, `park`, `effect`, `progress`: what a command inside a run says, without Python.

Run and fence are found in the environment that `jackline work` gave the command. Each of these returns when the
service has answered, and waits through an outage for `--patience` seconds (60); exit code 4 then means that nobody
knows. A refusal (`fence_lost`, exit code 3) means that the run is somebody else's now: stop.

    jackline partial save FILE|-             replace the partial (JSON; other text becomes a string)
    jackline partial get                     print it
    jackline progress MESSAGE
    jackline park --question JSON|TEXT       put the run aside; then exit. The answer is in JACKLINE_ANSWER next time
    jackline park --keep-lease --wait ...    wait here instead, and print the answer
    jackline effect claim KEY --payload JSON   0 go on; 10 done before; 11 another payload; 12 nobody knows
    jackline effect complete|fail KEY --outcome JSON
    jackline effect reconcile KEY --done|--not-done --outcome JSON     with --run RUN also for people, outside of it

An effect is caused at most once over all attempts of a run:

    if jackline effect claim mail-1 --payload '{"to": "ada"}'; then send-mail && jackline effect complete mail-1; fi
"""

import json
import os
import signal
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from jackline._sync.client import Client
from jackline._sync.pause import pause
from jackline.cli import show
from jackline.cli.exits import EFFECT, UNKNOWN, USAGE, Fault
from jackline.cli.place import Place, verb
from jackline.cli.submit import json_argument
from jackline.clock import SYSTEM
from jackline.models import LeaseRef
from jackline.retrying import Retry
from jackline.worker import keeper
from jackline.worker.places import Attempt

PANEL = "Inside a run"
FLUSH_S = 10.0  # how long a parking waits for the worker to deliver the output written before it
LOOK_S = 0.05
OUTSIDE = "outside, name the run: --run RUN"
Patience = Annotated[float, typer.Option("--patience", metavar="SECONDS", help="How long to wait out an outage.")]
Outcome = Annotated[str | None, typer.Option("--outcome", metavar="JSON", help="What came of it.")]
EffectKey = Annotated[str, typer.Argument(metavar="KEY", help="The effect's name within the run.")]


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    partial = typer.Typer(no_args_is_help=True, help="Save or print what the run has produced so far.")
    verb(partial, "", "save")(partial_save)
    verb(partial, "", "get")(partial_get)
    app.add_typer(partial, name="partial", rich_help_panel=PANEL)
    effect = typer.Typer(no_args_is_help=True, help="Record a side effect before and after it is caused.")
    verb(effect, "", "claim")(effect_claim)
    verb(effect, "", "complete")(effect_complete)
    verb(effect, "", "fail")(effect_fail)
    verb(effect, "", "reconcile")(effect_reconcile)
    app.add_typer(effect, name="effect", rich_help_panel=PANEL)
    verb(app, PANEL, "park")(park)
    verb(app, PANEL, "progress")(progress)


def _lease(outside: str = "") -> LeaseRef:
    """The lease of the run that this is inside of; `outside`: what to do where it is none."""
    run_id, fence = os.environ.get("JACKLINE_RUN_ID"), os.environ.get("JACKLINE_FENCE", "")
    if not run_id or not fence.isdigit():
        msg = "this is not inside a run: JACKLINE_RUN_ID and JACKLINE_FENCE are not set"
        raise Fault(msg, outside or "`jackline work` sets them for the commands that it executes", USAGE)
    return LeaseRef(run_id, int(fence))


def _control() -> Attempt | None:
    """The mailbox between this command and its worker; None when the run is held by something else."""
    path = os.environ.get("JACKLINE_CONTROL")
    return Attempt(Path(path)) if path and Path(path).is_dir() else None


def _client(place: Place, patience_s: float) -> Client:
    client = place.client(Retry(patience_s=patience_s))
    _wait_for_worker(patience_s)
    # The order to end goes to every process of the run; what is being said now is said first, within the grace.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return client


def _wait_for_worker(patience_s: float) -> None:
    """Say nothing for a run whose worker is dead: it would renew a lease that nobody looks after any more."""
    control = _control()
    worker = control.load("worker.json") if control is not None else None
    waited_s = 0.0
    while worker is not None and worker["come_back_s"] is not None and not keeper.is_running(worker):
        if waited_s >= patience_s:
            msg = "the worker of this run is gone, and the run is being handed over"
            raise Fault(msg, "stop; what was saved is kept, and the next attempt begins there", UNKNOWN)
        pause(LOOK_S)
        waited_s += LOOK_S
        worker = control.load("worker.json") if control is not None else None


def _value(text: str | None, what: str) -> Any:
    return None if text is None else json_argument(text, what, or_text=True)


def partial_save(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A file with JSON, or - for standard input.")],
    patience: Patience = 60.0,
) -> None:
    """Replace the run's partial."""
    value = json_argument(file if file == "-" else f"@{file}", "the partial", or_text=True)
    with _client(place, patience) as client:
        client.save_partial(_lease(), value)


def partial_get(place: Place, patience: Patience = 60.0) -> None:
    """Print the run's partial as JSON; `null` when there is none."""
    with _client(place, patience) as client:
        show.print_json(client.run(_lease().run_id).partial)


def progress(
    place: Place,
    message: Annotated[str, typer.Argument(metavar="MESSAGE")],
    patience: Patience = 60.0,
) -> None:
    """Say what the run is doing; counts as a sign of life."""
    with _client(place, patience) as client:
        client.progress(_lease(), message)


def park(
    place: Place,
    question: Annotated[str | None, typer.Option("--question", metavar="JSON|TEXT", help="What to ask.")] = None,
    kind: Annotated[
        str, typer.Option("--kind", help="waiting_input, waiting_peer or waiting_takeover.")
    ] = "waiting_input",
    keep_lease: Annotated[bool, typer.Option("--keep-lease", help="Stay the holder while waiting.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="With --keep-lease: wait, and print the answer.")] = False,
    patience: Patience = 60.0,
) -> None:
    """Put the run aside until somebody answers; without --keep-lease, exit afterwards."""
    if wait and not keep_lease:
        msg = "--wait needs --keep-lease: without its lease the command must exit"
        raise Fault(msg, code=USAGE)
    value, lease, control = _value(question, "--question"), _lease(), _control()
    mark = {"kind": kind, "question": value, "keep_lease": keep_lease}
    with _client(place, patience) as client:
        if control is not None:
            _flush(control)
            control.save("parking.json", mark)
        known = len(client.run(lease.run_id).answers)
        try:
            client.park(lease, value, kind=kind, keep_lease=keep_lease)
        except BaseException:
            if control is not None:
                (control / "parking.json").unlink(missing_ok=True)
            raise
        if control is not None:
            control.save("parked.json", mark)
        if wait:
            _wait_for_answer(client, lease.run_id, known)
            for name in ("parked.json", "parking.json") if control is not None else ():
                ((control or Attempt(Path())) / name).unlink(missing_ok=True)


def _flush(control: Attempt) -> None:
    """Have the worker deliver what was written so far: after the parking nothing is accepted any more."""
    token = SYSTEM.new_id()
    (control / "flush").write_text(token, encoding="ascii")
    waited_s = 0.0
    while waited_s < FLUSH_S:
        if control.path.joinpath("flushed").exists() and (control / "flushed").read_text(encoding="ascii") == token:
            return
        pause(LOOK_S)
        waited_s += LOOK_S


def _wait_for_answer(client: Client, run_id: str, known: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for _ in client.follow(run_id):
        run = client.run(run_id)
        if len(run.answers) > known:
            print(json.dumps(run.answers[-1].answer, ensure_ascii=False))
            return
    msg = f"the run {run_id} has ended without an answer"
    raise Fault(msg)


def effect_claim(
    place: Place,
    effect: EffectKey,
    payload: Annotated[str | None, typer.Option("--payload", metavar="JSON", help="What will be done.")] = None,
    patience: Patience = 60.0,
) -> int:
    """Record the intention; exit 0: go on, 10: done before (outcome printed), 11: other payload, 12: nobody knows."""
    with _client(place, patience) as client:
        told = client.claim_effect(_lease(), effect, _value(payload, "--payload"))
    if place.json:
        show.print_json(told)
    elif told.answer == "existing":
        print(json.dumps(told.outcome, ensure_ascii=False))
    else:
        print(told.answer)
    return EFFECT[told.answer]


def effect_complete(place: Place, effect: EffectKey, outcome: Outcome = None, patience: Patience = 60.0) -> None:
    """The effect happened, with this outcome."""
    with _client(place, patience) as client:
        client.complete_effect(_lease(), effect, _value(outcome, "--outcome"))


def effect_fail(place: Place, effect: EffectKey, outcome: Outcome = None, patience: Patience = 60.0) -> None:
    """The effect certainly did not happen; it may be claimed again."""
    with _client(place, patience) as client:
        client.fail_effect(_lease(), effect, _value(outcome, "--outcome"))


def effect_reconcile(
    place: Place,
    effect: EffectKey,
    done: Annotated[bool | None, typer.Option("--done/--not-done", help="What was found out.")] = None,
    outcome: Outcome = None,
    run_id: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Of this run; not inside of it.")] = None,
    patience: Patience = 60.0,
) -> None:
    """Say what was found out about an ambiguous effect: inside its run, or with --run as its leader or an operator.

    With --run no fence is needed, and it is never too late, also when the run has ended. An effect that was not done
    may be claimed again; of one that was done, later claims are told the outcome.
    """
    if done is None:
        msg = "it is not said what was found out about the effect"
        raise Fault(msg, "--done if it happened, --not-done if it certainly did not", USAGE)
    resolution: Literal["done", "not_done"] = "done" if done else "not_done"
    value = _value(outcome, "--outcome")
    if run_id is not None:
        with place.client() as client:
            client.reconcile_effect(run_id, effect, resolution, value)
        return
    with _client(place, patience) as client:
        client.reconcile_effect(_lease(outside=OUTSIDE), effect, resolution, value)
