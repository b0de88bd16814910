"""`run` and `attach`: being the leader of a run, and following it to its end.

The command line is present as the run's leader for as long as it follows. The first interrupt asks the run to end and
goes on following; the second leaves without waiting, as closing the terminal, SIGTERM and a kill do. From then on the
service decides by the leader's grace: what is still open when it is over is settled as cancelled, unless the run's
policy says `keep` or `park`. `attach` comes back in time, under the same leader id, or takes the run over under
another one.

Failure: a service that cannot be reached is waited for, and said so; whether the absence lasts too long is the
service's to judge.
"""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import typer

from jackline._async.client import AsyncClient
from jackline._async.leader import AsyncLeader
from jackline.cli import show
from jackline.cli.exits import DONE, HUNG_UP, INTERRUPTED, OUTCOME, TERMINATED, complain
from jackline.cli.following import follow_output, narrate
from jackline.cli.look import RunId
from jackline.cli.place import Options, Place, run_async, verb
from jackline.cli.submit import COMMAND_SETTINGS, Wanted, needed
from jackline.errors import JacklineError, RunSettled
from jackline.models import Run, Settled, Submission
from jackline.retrying import Retry

PANEL = "Runs"
PATIENT = Retry(patience_s=15.0)
LOOK_S = 0.5  # between two looks at whether the leader is connected
LOOKS_MAX = 4  # looks in a row without a connection before it is worth a word
AFTER: dict[str, str] = {
    "cancel": "unless its leader is back within its grace, the run is settled as cancelled",
    "keep": "the run goes on without its leader",
    "park": "unless its leader is back within its grace, the run is parked",
}
LEAVING = {signal.SIGHUP: HUNG_UP, signal.SIGTERM: TERMINATED}


@dataclass(frozen=True)
class Leaving(Options):
    """What becomes of a run that its leader leaves."""

    keep: Annotated[bool, typer.Option("--keep", help="The run goes on when you leave.")] = False
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Leave at once: --keep, and print the id.")] = False


@dataclass(slots=True)
class Visit:
    """One stay of this command line with a run."""

    client: AsyncClient
    run_id: str
    leader: AsyncLeader | None
    on_leader_gone: str = "keep"
    asking: asyncio.Task[None] | None = None
    left: int | None = None
    told: int = field(default=0)

    def tell_settled(self) -> None:
        """Which runs of the leader were settled while it was away, each once."""
        found = self.leader.settled_while_away if self.leader is not None else []
        for one in found[self.told :]:
            complain(settled_line(one))
        self.told = len(found)


def join(app: typer.Typer) -> None:
    """Add these verbs."""
    verb(app, PANEL, "run", **COMMAND_SETTINGS)(run)
    verb(app, PANEL, "attach")(attach)


def run(
    place: Place,
    wanted: Wanted,
    leaving: Leaving,
    command: Annotated[list[str] | None, typer.Argument()] = None,
) -> int:
    """Submit a command as its leader, follow its output, and exit as it did (0 succeeded, 1 failed, 20 cancelled).

    The first interrupt asks the run to end, the second leaves. When the leader has left, its grace decides.
    With --json every piece of output is one line of JSON, as in `logs --json`, and the last line is the run.
    """
    submission = wanted.submission(needed(wanted, command))
    if leaving.keep or leaving.detach:
        submission["policy"] = {"on_leader_gone": "keep", **submission.get("policy", {})}
    return run_async(_run(place, submission, detach=leaving.detach))


def attach(
    place: Place,
    run_id: RunId,
    leader: Annotated[str | None, typer.Option("--leader", help="Take the run over as this leader.")] = None,
) -> int:
    """Come back to a run as its leader, follow its output from the start, and exit as it did.

    Interrupts and --json do what they do for `run`. A run without a leader is only followed, unless --leader names one.
    """
    return run_async(_attach(place, run_id, leader))


def settled_line(one: Settled) -> str:
    """One run that was settled while its leader was away."""
    name = f" ({show.safe(one.name)})" if one.name else ""
    reason = f", {one.reason}" if one.reason else ""
    return f"settled while its leader was away: {one.run_id}{name} {one.state}{reason} {show.moment(one.settled_at)}"


async def _run(place: Place, submission: Submission, *, detach: bool) -> int:
    async with place.async_client(PATIENT) as client:
        leader_id = submission.get("leader_id") or await _own_leader_id(client)
        submission["leader_id"] = leader_id
        if detach:
            receipt = await client.submit(**submission)
            if place.json:
                show.print_json(receipt)
            else:
                print(receipt.run_id)
            return DONE
        async with client.leader(leader_id) as leader:
            receipt = await client.submit(**submission)
            complain(f"run {receipt.run_id} submitted to queue {submission.get('queue')}, led by {leader_id}")
            after = submission.get("policy", {}).get("on_leader_gone", "cancel")
            return await _stay(Visit(client, receipt.run_id, leader, after), json_wanted=place.json)


async def _own_leader_id(client: AsyncClient) -> str:
    """A leader id for this invocation alone, unless the key is good for certain ones only."""
    allowed = (await client.whoami()).leader_ids
    return str(allowed[0]) if allowed else f"run-{secrets.token_hex(6)}"


async def _attach(place: Place, run_id: str, leader_id: str | None) -> int:
    async with place.async_client(PATIENT) as client:
        found = await client.run(run_id)
        wanted = leader_id or found.leader_id
        if found.settled or wanted is None:
            complain(f"run {run_id} has {'ended' if found.settled else 'no leader: it is only followed'}")
            return await _stay(Visit(client, run_id, None), json_wanted=place.json)
        async with client.leader(wanted) as leader:
            await _take_over(client, found, wanted)
            after = str(found.policy.get("on_leader_gone", "cancel"))
            return await _stay(Visit(client, run_id, leader, after), json_wanted=place.json)


async def _take_over(client: AsyncClient, found: Run, leader_id: str) -> None:
    """Make the run this leader's; one that ended meanwhile is followed to that end."""
    if found.leader_id != leader_id:
        with contextlib.suppress(RunSettled):
            await client.reassign(found.run_id, leader_id, found.revision)
    complain(f"run {found.run_id} is led from here, by {leader_id}")


async def _stay(visit: Visit, *, json_wanted: bool) -> int:
    """Follow the run to its end, or until the order to leave; the exit code."""
    following = asyncio.create_task(_follow(visit, json_wanted=json_wanted))
    beside = [asyncio.create_task(_tell_presence(visit))]
    try:
        with _heard(visit, following), show.Waiting("waiting for a worker") as waiting:
            beside.append(asyncio.create_task(narrate(visit.client, visit.run_id, waiting)))
            return await following
    except asyncio.CancelledError:
        if visit.left is None:
            raise
        return visit.left
    finally:
        for one in (*beside, visit.asking):
            if one is not None:
                one.cancel()


async def _follow(visit: Visit, *, json_wanted: bool) -> int:
    await follow_output(visit.client, visit.run_id, json=json_wanted)
    ended = await visit.client.wait(visit.run_id)
    visit.tell_settled()
    if json_wanted:
        show.print_json(ended, line=True)
    why = ended.reason or show.brief(ended.error)
    complain(f"run {visit.run_id} {ended.state} (attempt {ended.attempt}){f', {why}' if why else ''}")
    return OUTCOME.get(ended.state, 1)


@contextlib.contextmanager
def _heard(visit: Visit, following: "asyncio.Task[int]") -> Iterator[None]:
    """Hear signals while the body runs; one that the caller ignores (nohup) stays ignored."""
    loop = asyncio.get_running_loop()
    numbers = [number for number in (signal.SIGINT, *LEAVING) if signal.getsignal(number) is not signal.SIG_IGN]

    def leave(code: int) -> None:
        visit.left = code
        with contextlib.suppress(OSError):  # whoever closed the terminal reads nothing any more
            complain(_farewell(visit))
        following.cancel()

    def interrupt() -> None:
        if visit.asking is not None:
            leave(INTERRUPTED)
            return
        complain("asking the run to end, and waiting until it has; interrupt again to leave without waiting")
        visit.asking = asyncio.create_task(_ask(visit))

    for number in numbers:
        if number is signal.SIGINT:
            loop.add_signal_handler(number, interrupt)
        else:
            loop.add_signal_handler(number, leave, LEAVING[number])
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _ask(visit: Visit) -> None:
    try:
        await visit.client.cancel(visit.run_id)
    except RunSettled:
        pass  # it has ended by itself, and is followed to that end
    except JacklineError as error:
        complain(f"the run could not be asked to end: {error}", "interrupt again to leave")


def _farewell(visit: Visit) -> str:
    if visit.asking is not None:
        return f"left; the run was asked to end: `jackline show {visit.run_id}`"
    after = AFTER.get(visit.on_leader_gone, AFTER["cancel"]) if visit.leader is not None else "the run goes on"
    return f"left; {after}: `jackline attach {visit.run_id}` comes back"


async def _tell_presence(visit: Visit) -> None:
    """Say when the leader has lost its connection, when it has it again, and what it missed."""
    away = 0
    while visit.leader is not None:
        visit.tell_settled()
        if visit.leader.connected_by is not None:
            if away >= LOOKS_MAX:
                complain("connected again")
            away = 0
        else:
            away += 1
            if away == LOOKS_MAX:
                complain(f"the service cannot be reached; {AFTER.get(visit.on_leader_gone, AFTER['cancel'])}")
        await asyncio.sleep(LOOK_S)
