"""Instructions: what a holder, or whoever placed a workspace, is asked to do.

Each is repeated with every renewal until it has been done (an *answer* until the next question shows that it came), and
is pushed over a worker's stream at once; so one that got lost costs a moment, and whoever comes late is told the
present state.

*workspace_lost* is told under the fence that was in force, *destroy_workspace* until the body is destroyed, to the
worker on whose machine it is, or to any holder where the body is nobody's own. *turn_failed* and *turn_cut* are told
until the holder has said itself how the turn ended, or its attempt is over.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from commands.desk import Desk
from commands.looking import workspaces_of
from domain.lease import Held
from domain.run import Run
from domain.standing import PAUSE_ASKED
from domain.worker import Registered
from domain.workspace import Workspace
from domain.workspace_facts import ON_ITS_MACHINE

Instruction = dict[str, Any]

GROUNDS_TOLD_MAX = 256
"""Instructions about ground in one answer; the rest follow as these are done."""


def stop(reason: str, within_s: float) -> Instruction:
    """The instruction to end the run's process: asked first, killed after ``within_s`` seconds."""
    return {"kind": "stop", "reason": reason, "data": {"stop_within_s": within_s}}


def instructions(desk: Desk, run: Run, lease: Held, worker: Registered) -> list[Instruction]:
    """What the holder is asked to do."""
    asked: list[Instruction] = []
    if run.cancel is not None:
        data = {"settles_at": run.cancel.settles_at, "keep_workspaces": run.cancel.keep_workspaces}
        asked.append({"kind": "cancel", "reason": "asked_by_principal", "data": data})
    if run.pause_asked:
        asked.append({"kind": "pause", "reason": PAUSE_ASKED, "data": {}})
    if worker.draining:
        asked.append({"kind": "drain", "reason": "worker_draining", "data": {}})
    asked.extend(_answered(run, lease.fence))
    found = about_grounds(workspaces_of(desk, run.run_id), lease.worker, lease.fence, holds=True)
    asked.extend(islice(found, GROUNDS_TOLD_MAX))
    asked.extend(_about_turns(desk, run))
    return asked


def _answered(run: Run, fence: int) -> list[Instruction]:
    """The last answer under this fence: whoever could ask anew has had the ones before."""
    number, given = len(run.answers), run.answers[-1] if run.answers else None
    if given is None or given.fence != fence:
        return []
    data = {"number": number, "question": given.question, "answer": given.answer}
    return [{"kind": "answer", "reason": "answered", "data": data}]


def parting(desk: Desk, run_id: str, worker_id: str, fence: int) -> list[Instruction]:
    """What a worker that lost the run is told about what the run stood on."""
    found = about_grounds(workspaces_of(desk, run_id), worker_id, fence, holds=False)
    return list(islice(found, GROUNDS_TOLD_MAX))


def about_grounds(
    workspaces: Sequence[Workspace], worker_id: str, fence: int, *, holds: bool
) -> Iterator[Instruction]:  # fmt: skip
    """Losses under this fence, and bodies that this worker can destroy; who holds nothing is told of its own only."""
    for workspace in workspaces:
        lost, its_own = workspace.lost, workspace.placed.worker == worker_id
        if lost is not None and lost.fence == fence and (holds or its_own):
            data = {
                "workspace_id": workspace.workspace_id,
                "reason": lost.reason,
                "message": lost.message,
                "exit_code": None if lost.exit is None else lost.exit.code,
            }
            yield {"kind": "workspace_lost", "reason": lost.reason, "data": data}
        if workspace.awaits_teardown and (its_own or (holds and workspace.provider not in ON_ITS_MACHINE)):
            yield destroy(workspace)


def destroy(workspace: Workspace) -> Instruction:
    """The instruction to destroy a body, with what its provider needs to find it."""
    data = {
        "workspace_id": workspace.workspace_id,
        "provider": workspace.provider,
        "identity": workspace.identity,
        "spec": workspace.placed.spec,
    }
    return {"kind": "destroy_workspace", "reason": workspace.reason or "released", "data": data}


def _about_turns(desk: Desk, run: Run) -> Iterator[Instruction]:
    """Turns that were ended from here, and that the holder has not ended itself meanwhile."""
    for turn in run.turns.over:
        if turn.by == "holder" or desk.evidence.turn_told(run.run_id, turn.turn):
            continue
        if turn.ended == "failed":
            data = {"turn": turn.turn, "code": turn.code, "message": turn.message}
            yield {"kind": "turn_failed", "reason": turn.code, "data": data}
        else:
            yield {"kind": "turn_cut", "reason": "harness_restarted", "data": {"turn": turn.turn}}
