"""What a holder and a provider do with a workspace: place it, tell how it comes along, attach, assert, let it go.

Placing is the holder's, under its fence. What becomes of the body afterwards is told by those whose business it is:
whoever placed it, whoever holds the run or held it last, and whoever observes its scope; a fence proves nothing about a
body. Its release is asked for by the holder, the run's leader or an operator.

An assertion appends nothing. It says that the workspace is still needed, and is refused once its run has ended, so that
a body which nobody needs ages; a body that was let go is not asserted any more. One that comes while its reap is on the
way into the journal waits for that, and is answered by what came of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from commands.desk import ACTING, Caller, Desk, NotAllowed, entries_of, merged
from commands.looking import document, find, is_concerned, is_holder
from domain.decider import Draft
from domain.placing import Attach, Place, provision, release, wait_for
from domain.placing import attach as attached
from domain.placing import place as placed
from domain.placing import say_gone as gone_by_word
from domain.refusal import InvalidCommand, SettledOtherwise
from domain.releasing import Release
from domain.standing import RunDraft, Standing
from domain.values import Json, Moment, Value
from domain.words import NO_WORDS
from domain.workspace import BEFORE_ATTACHMENT, Workspace
from domain.workspace_facts import LastSeen, Provider, WaitsOn
from domain.workspace_refusals import MESSAGE_MAX_CHARS, WorkspaceOver, check_text
from journal.commit import Decision, Done

Decide = Callable[[Standing, Moment], RunDraft]

OPERATING = ("operator", "admin")
"""Roles that may say what nobody else is there to say."""


class Wish(Value, frozen=True, kw_only=True):
    """What the holder wants its run to stand on."""

    provider: Provider
    scope: str | None
    spec: Json


class Step(Value, frozen=True, kw_only=True):
    """How far the making of a body has come."""

    phase: Literal["waiting", "provisioning", "attaching"]
    on: WaitsOn | None = None
    message: str | None = None
    identity: str | None = None


async def place(desk: Desk, caller: Caller, run_id: str, fence: int | None, wish: Wish) -> Done[dict[str, Any]]:
    """A new workspace of the run, and the phase in which it begins.

    Raises:
        FenceLost: the fence gives no right to act.
        LimitReached: the run has as many workspaces as one may have.
    """
    command = Place(workspace_id=desk.mint(), provider=wish.provider, scope=wish.scope, spec=wish.spec)

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return placed(standing, desk.presented(caller, fence), command, now)

    def answer(after: Standing, _: Moment) -> dict[str, Any]:
        fresh = after.workspace(command.workspace_id)
        return {"workspace_id": fresh.workspace_id, "phase": fresh.phase}

    done = await desk.on_run(caller, run_id, decide, answer)
    desk.note_fence(fence, "workspaces")
    return done


async def attach(desk: Desk, caller: Caller, workspace_id: str, command: Attach) -> Done[dict[str, Any]]:
    """The run stands on this body from now on; a second time with more incarnations tells of a restart."""
    require_concern(desk, caller, find(desk, caller, workspace_id), "attach to this workspace")
    done = await on_workspace(
        desk, caller, workspace_id, lambda standing, now: attached(standing, workspace_id, command, now)
    )
    if done.position is not None:
        desk.evidence.grounds.heard(workspace_id, NO_WORDS)
    return done


async def move(desk: Desk, caller: Caller, workspace_id: str, step: Step) -> Done[dict[str, Any]]:
    """The making of the body has come so far.

    Raises:
        InvalidCommand: a wait says not on what, or a body that exists is not named.
    """
    require_concern(desk, caller, find(desk, caller, workspace_id), "make this workspace")
    _check(step)

    def decide(standing: Standing, now: Moment) -> RunDraft:
        if step.phase == "waiting" and step.on is not None:
            return wait_for(standing, workspace_id, step.on, step.message, now)
        return provision(standing, workspace_id, step.identity, now)

    done = await on_workspace(desk, caller, workspace_id, decide)
    card = desk.live.grounds.cards.get(workspace_id)
    if step.message is not None and card is not None and card.phase in BEFORE_ATTACHMENT:
        desk.evidence.grounds.heard(workspace_id, LastSeen(message=step.message))
    return done


def _check(step: Step) -> None:
    check_text("message", step.message, MESSAGE_MAX_CHARS)
    if step.phase == "waiting" and step.on is None:
        raise InvalidCommand(field="on", value=None, limit="node or quota, for a workspace that waits")
    if step.phase != "waiting" and step.on is not None:
        raise InvalidCommand(field="on", value=step.on, limit=f"left out with {step.phase!r}")
    if step.phase == "attaching" and step.identity is None:
        raise InvalidCommand(field="identity", value=None, limit="the body that exists, for one that is attaching")
    if step.phase != "attaching" and step.identity is not None:
        raise InvalidCommand(field="identity", value=step.identity[:200], limit=f"left out with {step.phase!r}")


async def assert_needed(desk: Desk, caller: Caller, workspace_id: str) -> dict[str, Any]:
    """The workspace is needed as of now; how long without the next assertion, and within which time to make it.

    Raises:
        SettledOtherwise: its run has ended; it ages from the last assertion on.
        WorkspaceOver: it has ended, or is to be destroyed.
    """
    if workspace_id in desk.evidence.grounds.reaps:
        await desk.journal.quiet(find(desk, caller, workspace_id).placed.run_id)
    workspace = find(desk, caller, workspace_id)
    require_concern(desk, caller, workspace, "assert this workspace")
    run_id = workspace.placed.run_id
    if run_id not in desk.live.cards:
        run = desk.standing(caller, run_id).known
        raise SettledOtherwise(run_id=run.run_id, state=run.state, reason=run.reason)
    card = desk.live.grounds.cards.get(workspace_id)
    if card is None or workspace.over or workspace.teardown:
        raise WorkspaceOver(workspace_id=workspace_id, phase=workspace.phase, reason=workspace.reason)
    desk.live.grounds.assert_now(card, desk.clock())
    return {
        "workspace_id": workspace_id,
        "idle_reap_s": desk.timers.idle_reap_s,
        "next_within_s": desk.timers.assert_every_s,
    }


async def release_workspace(
    desk: Desk, caller: Caller, workspace_id: str, worker_id: str | None = None
) -> Done[dict[str, Any]]:
    """Nobody needs the workspace any more: its provider is told to destroy the body; one never placed has none.

    ``worker_id``: a worker lets it go by itself, and nobody had asked it to.
    """
    workspace = find(desk, caller, workspace_id)
    if worker_id is not None:
        desk.require_worker(caller, worker_id, "let this workspace go")
    _require_owner(desk, caller, workspace)
    by, cause = (caller.principal, "asked_for") if worker_id is None else (worker_id, "left_by_its_worker")
    command = Release(by=by, cause=cause)
    return await on_workspace(
        desk, caller, workspace_id, lambda standing, now: release(standing, workspace_id, command, now)
    )


async def say_gone(desk: Desk, caller: Caller, workspace_id: str) -> Done[dict[str, Any]]:
    """A body that is to be destroyed is no more: an operator looked, since nobody who provides it tells.

    Raises:
        WrongPhase: it was not let go; a body that a run may stand on ends by being observed.
    """
    if caller.role not in OPERATING:
        allowed = "an operator; whoever provides the body reports that it is gone"
        raise NotAllowed(principal=caller.principal, action="say that this body is gone", allowed=allowed)
    find(desk, caller, workspace_id)
    return await on_workspace(
        desk, caller, workspace_id, lambda standing, now: gone_by_word(standing, workspace_id, now)
    )


def _require_owner(desk: Desk, caller: Caller, workspace: Workspace) -> None:
    if caller.role == "worker":
        if not is_holder(desk, caller, workspace):
            raise NotAllowed(principal=caller.principal, action="destroy this workspace", allowed="its run's holder")
        return
    run = desk.standing(caller, workspace.placed.run_id).known
    desk.require_leader(caller, run, "destroy this workspace")


def require_concern(desk: Desk, caller: Caller, workspace: Workspace, action: str) -> None:
    """Refuse a principal whose business the workspace is not."""
    if caller.role not in ACTING or not is_concerned(desk, caller, workspace):
        raise NotAllowed(
            principal=caller.principal, action=action, allowed="its run's holder or whoever observes its scope"
        )


def standing_on(desk: Desk, caller: Caller, workspace: Workspace) -> Standing:
    """How the run of a workspace stands, with this workspace among its own even when its end was decided long ago."""
    return including(desk.standing(caller, workspace.placed.run_id), workspace)


def including(standing: Standing, workspace: Workspace) -> Standing:
    """How the run stands, with this workspace among its own if it is one of them."""
    known = any(each.workspace_id == workspace.workspace_id for each in standing.workspaces)
    if known or workspace.placed.run_id != standing.run_id:
        return standing
    return msgspec.structs.replace(standing, workspaces=(*standing.workspaces, workspace))


async def on_workspace(
    desk: Desk, caller: Caller, workspace_id: str, decide: Decide, read: Callable[[], Mapping[str, int]] = dict
) -> Done[dict[str, Any]]:
    """Carry out a decision about one workspace and its run; the workspace as it is shown afterwards.

    ``read`` are the guards of whoever asks, or its refusal; they are looked at with each try.
    """
    run_id = find(desk, caller, workspace_id).placed.run_id

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        standing = standing_on(desk, caller, find(desk, caller, workspace_id))
        draft: Draft = decide(standing, now)
        after = desk.after(standing, draft).workspace(workspace_id)
        guards = merged([draft.versions, read()])
        return Decision(entries_of(draft.entries, run_id), guards, document(desk, after))

    return await desk.execute(caller, (run_id,), decision)
