"""Every step around ground and turns in a small world: placing, attaching, every report, letting go, and turns.

A body ends by itself, as a step of nature that nobody is told of by it; only then may its end be reported, in every
way in which one is. Reports of a stranger's end, of nothing seen and of restarts come at any time. What holds is that
no report but that of the very body's end is ever a loss.
"""

from collections.abc import Iterator
from functools import partial

import msgspec

from domain import grounds, placing, releasing, turns
from domain import observing as watching
from domain.observing import Observation
from domain.run import Run
from domain.standing import Presented, Remains, RunDraft
from domain.workspace import Workspace
from domain.workspace_facts import LastSeen, ProvisionFaulted, WorkspaceLost
from simulation.broken import LawBroken
from simulation.ground_books import UNKNOWN
from simulation.small import NOW, Bounds, Decide, RunSeen, State, Step, Taken, on_run, replaced

TURN = 1
BUDGET_S = 120.0
STRANGER = "a stranger"


def ground_writes(shown: Presented, bounds: Bounds) -> Iterator[tuple[str, Decide]]:
    """What a holder does under its fence."""
    for number in range(bounds.grounds):
        yield f"places g{number} for", partial(_place, shown, f"g{number}")
    if bounds.turns:
        yield "admits a turn on nothing of", partial(_admit, shown, None)
        for number in range(bounds.grounds):
            yield f"admits a turn on g{number} of", partial(_admit, shown, f"g{number}")
        yield "delivers its turn of", partial(_move, shown, turns.Move(state="waiting"))
        yield "is busy with its turn of", partial(_move, shown, turns.Move(state="busy"))
        yield "completes its turn of", lambda seen: turns.complete(seen.standing, shown, TURN, NOW)
        why = turns.Failure(code="broken")
        yield "fails its turn of", lambda seen: turns.fail(seen.standing, shown, TURN, why, NOW)


def _place(shown: Presented, workspace_id: str, seen: RunSeen) -> RunDraft:
    if any(each.workspace_id == workspace_id for each in seen.standing.workspaces):
        return seen.standing.draft()
    return placing.place(seen.standing, shown, placing.Place(workspace_id=workspace_id), NOW)


def _admit(shown: Presented, ground: str | None, seen: RunSeen) -> RunDraft:
    if seen.run.turns.last >= TURN:
        return seen.standing.draft()
    return turns.admit(seen.standing, shown, ground, NOW)


def _move(shown: Presented, move: turns.Move, seen: RunSeen) -> RunDraft:
    return turns.move(seen.standing, shown, TURN, move, NOW)


def ground_steps(number: int, seen: RunSeen, remains: Remains) -> Iterator[Step]:
    """Everything that may happen to what a run stands on, and be told of it."""
    for workspace in seen.standing.workspaces:
        name, ended = workspace.workspace_id, workspace.workspace_id in seen.ended
        if not ended:
            yield Step(f"the body of {name} ends", None, partial(_ends, number=number, name=name))
        for text, decide in _told(workspace, remains, ended=ended):
            yield on_run(f"{name} of r{number} {text}", number, decide)
    if seen.run.turns.open:
        give_up = partial(_give_up, last=LastSeen())
        yield on_run(f"the turn of r{number} is not delivered in time", number, give_up)


def _give_up(seen: RunSeen, last: LastSeen) -> RunDraft:
    return turns.give_up(seen.standing, TURN, last, NOW)


def _ends(state: State, *, number: int, name: str) -> State:
    return replaced(state, number, ended=tuple(sorted({*state.runs[number].ended, name})))


def _told(workspace: Workspace, remains: Remains, *, ended: bool) -> Iterator[tuple[str, Decide]]:
    name = workspace.workspace_id
    body = f"body of {name}"
    for identity, starts in ((body, 0), (body, 1), (STRANGER, 0)):
        command = placing.Attach(identity=identity, incarnation=starts)
        yield f"is attached to as {identity} {starts}", partial(_attach, name, command)
    for text, seen in _reports(body, ended=ended):
        yield text, partial(_observe, name, seen, remains)
    release = releasing.Release(by="lena", cause="asked_for")
    yield "is released", lambda seen: placing.release(seen.standing, name, release, NOW)
    yield "is reaped", lambda seen: placing.reap(seen.standing, name, NOW.wall, 1.0, NOW)
    yield "is unseen since a boot", lambda seen: placing.unsee(seen.standing, name, "boot", NOW.wall)
    yield "uses up its budget", lambda seen: grounds.time_out(seen.standing, name, BUDGET_S, remains, NOW)


def _reports(body: str, *, ended: bool) -> Iterator[tuple[str, tuple[Observation, ...]]]:
    yield "is seen", (Observation(kind="present", identity=body),)
    yield "is seen in a full list", (Observation(kind="present", identity=body), Observation(kind="synced"))
    yield "is not seen", (Observation(kind="watch_dropped"),)
    yield "is started anew", (Observation(kind="harness_restarted", identity=body, incarnation=1),)
    yield "has a stranger beside it that ends", (Observation(kind="gone", identity=STRANGER),)
    if ended:
        yield "is gone", (Observation(kind="gone", identity=body),)
        yield "has exited", (Observation(kind="ended", identity=body, reason="ProcessExited", exit_code=1),)
        yield "is replaced", (Observation(kind="replaced", identity=STRANGER),)


def _attach(name: str, command: placing.Attach, seen: RunSeen) -> RunDraft:
    if seen.standing.workspace(name).identity is None and command.identity == STRANGER:
        return seen.standing.draft()  # whoever attaches first says whose body it is
    return placing.attach(seen.standing, name, command, NOW)


def _observe(name: str, told: tuple[Observation, ...], remains: Remains, seen: RunSeen) -> RunDraft:
    """A stranger's end says nothing as soon as it is known whose body it is; before that nobody tells of one."""
    unnamed = seen.standing.workspace(name).identity is None
    if unnamed and told[0].identity == STRANGER:
        return seen.standing.draft()
    return watching.observe(seen.standing, name, told, LastSeen(), (remains, NOW))


def check_ends(before: RunSeen, taken: Taken) -> None:
    """Raise when something was recorded as lost or failed whose body has not ended."""
    for stream, fact in taken.entries:
        lost = isinstance(fact, WorkspaceLost) or (
            isinstance(fact, ProvisionFaulted) and fact.reason != grounds.BUDGET_SPENT
        )
        if lost and stream.partition("-")[2] not in before.ended:
            raise LawBroken(UNKNOWN, f"{stream} is there, and was recorded as lost", [fact])


def plain_grounds(seen: RunSeen) -> list[object]:
    """What tells grounds and turns apart, without what only counts or cites."""
    stood_on = []
    for each in seen.standing.workspaces:
        lost = None if each.lost is None else msgspec.structs.replace(each.lost, citation="")
        placed = msgspec.structs.replace(each.placed, run_id="")
        stood_on.append(msgspec.structs.replace(each, version=0, lost=lost, placed=placed))
    assert isinstance(seen.run, Run)
    return [stood_on, seen.ended]
