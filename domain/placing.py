"""Placing: what a holder and a provider do with a workspace, from the wish for a body to its end.

    place      the holder wants one; a body that others make (``external``) is taken to be on its way
    wait_for   there is no room for it yet: it waits without a deadline, and says on what
    provision  the body is being made; with its identity it exists, and what is inside has yet to answer
    attach     the run stands on it; a second time with a higher incarnation tells of a restart
    unsee      nobody sees it any more: unknown, which is never a loss
    expect     everything there is was listed, and its body is not there yet: that is seen
    release    nobody needs it any more: to be destroyed, or explicitly kept
    reap       nobody asserted it for the idle time

All of them may be repeated: what is so already yields no facts. A workspace never returns to an earlier phase, and
whoever names another body than the one it stands on is refused (``identity_changed``).
"""

from datetime import datetime

import msgspec

from domain.claiming import LimitReached
from domain.refusal import InvalidCommand
from domain.releasing import SAID_GONE, Release, destroy_unplaced, release_into
from domain.restarting import Restart, restart_into
from domain.run import Running
from domain.standing import Presented, RunDraft, Standing, holder, refuse_unless
from domain.values import NULL, Json, Moment, Value
from domain.workspace import BEFORE_ATTACHMENT, Workspace, workspace_stream
from domain.workspace_facts import (
    ContinuityRestored,
    ContinuityUnknown,
    Provider,
    UnknownCause,
    WaitsOn,
    WorkspaceAttached,
    WorkspaceDestroyed,
    WorkspacePlaced,
    WorkspaceProvisioning,
    WorkspaceReaped,
    WorkspaceWaiting,
)
from domain.workspace_refusals import (
    DETAIL_MAX_CHARS,
    DETAILS_MAX,
    IDENTITY_MAX_CHARS,
    INCARNATION_MAX,
    SCOPE_MAX_CHARS,
    WORKSPACES_MAX,
    IdentityChanged,
    IncarnationBackwards,
    WorkspaceOver,
    WrongPhase,
    check_message,
    check_text,
)


class Place(Value, frozen=True, kw_only=True):
    """The holder wants to stand on something; ``spec`` is for its provider."""

    workspace_id: str
    provider: Provider = "external"
    scope: str | None = None
    spec: Json = NULL


class Attach(Value, frozen=True, kw_only=True):
    """The body that the run stands on, how often its harness has started, and what people may want to know of it."""

    identity: str
    incarnation: int = 0
    details: dict[str, str] = msgspec.field(default_factory=dict)
    version: str | None = None


def place(standing: Standing, presented: Presented, command: Place, now: Moment) -> RunDraft:
    """Facts that follow when the holder wants a workspace for its run.

    Raises:
        FenceLost: the fence gives no right to act.
        WrongState: the run is parked.
        LimitReached: it has ``WORKSPACES_MAX`` that are not over.
        InvalidCommand: the scope is outside its bounds.
    """
    lease = holder(standing, presented)
    refuse_unless(standing, "running", met=isinstance(standing.known.phase, Running))
    check_text("scope", command.scope, SCOPE_MAX_CHARS)
    if sum(not each.over for each in standing.workspaces) >= WORKSPACES_MAX:
        raise LimitReached(limit="workspaces_max", value=WORKSPACES_MAX, subject=standing.run_id)
    draft = standing.draft()
    draft.begin(workspace_stream(command.workspace_id))
    draft.on_workspace(
        command.workspace_id,
        WorkspacePlaced(
            workspace_id=command.workspace_id,
            run_id=standing.run_id,
            tenant=standing.known.submission.tenant,
            provider=command.provider,
            scope=command.scope,
            spec=command.spec,
            fence=lease.fence,
            worker=lease.worker,
            placed_at=now.wall,
        ),
    )
    return draft


def wait_for(standing: Standing, workspace_id: str, on: WaitsOn, message: str | None, now: Moment) -> RunDraft:
    """Facts that follow when there is no room for a body yet; none when it waits for just that already.

    Raises:
        WorkspaceUnknown, WorkspaceOver: there is no such workspace, or it has ended.
        WrongPhase: it is past waiting for room.
    """
    check_message(message)
    draft, workspace = standing.draft(), standing.workspace(workspace_id)
    refuse_over(workspace)
    if workspace.phase != "placing":
        raise WrongPhase(workspace_id=workspace_id, phase=workspace.phase, wanted="placing")
    waiting = workspace.waiting
    if waiting is None or (waiting.on, waiting.message) != (on, message):
        draft.on_workspace(workspace_id, WorkspaceWaiting(on=on, message=message, since=now.wall))
    return draft


def provision(standing: Standing, workspace_id: str, identity: str | None, now: Moment) -> RunDraft:
    """Facts that follow when a body is being made, or exists (``identity``); none when it is further already.

    Raises:
        WorkspaceUnknown, WorkspaceOver: there is no such workspace, or it has ended.
        WrongPhase: it is to be destroyed.
        IdentityChanged: another body was named before.
    """
    check_text("identity", identity, IDENTITY_MAX_CHARS)
    draft, workspace = standing.draft(), standing.workspace(workspace_id)
    refuse_ended(workspace, "placing, provisioning or attaching")
    refuse_other(workspace, identity)
    if workspace.phase == "placing" or (workspace.phase == "provisioning" and identity is not None):
        draft.on_workspace(workspace_id, WorkspaceProvisioning(identity=identity, since=now.wall))
    return draft


def attach(standing: Standing, workspace_id: str, command: Attach, now: Moment) -> RunDraft:
    """Facts that follow when the run stands on this body; none when it does already, under that incarnation.

    Raises:
        WorkspaceUnknown, WorkspaceOver: there is no such workspace, or it has ended.
        WrongPhase: it is to be destroyed.
        IdentityChanged: it stands on another body.
        IncarnationBackwards: more restarts were seen before.
        InvalidCommand: a value is outside its bounds.
    """
    check_attach(command)
    draft, workspace = standing.draft(), standing.workspace(workspace_id)
    refuse_ended(workspace, "placing, provisioning, attaching or running")
    refuse_other(workspace, command.identity)
    if workspace.phase in BEFORE_ATTACHMENT:
        attach_into(draft, workspace, command, now)
    elif command.incarnation < workspace.incarnation:
        raise IncarnationBackwards(
            workspace_id=workspace_id, presented=command.incarnation, current=workspace.incarnation
        )
    elif command.incarnation > workspace.incarnation:
        restart_into(draft, workspace, Restart(incarnation=command.incarnation, version=command.version), now)
    return draft


def attach_into(draft: RunDraft, workspace: Workspace, command: Attach, now: Moment) -> None:
    """Put down that the run stands on this body from now on."""
    draft.on_workspace(
        workspace.workspace_id,
        WorkspaceAttached(
            identity=command.identity,
            incarnation=command.incarnation,
            details=command.details,
            version=command.version,
            attached_at=now.wall,
        ),
    )


def unsee(standing: Standing, workspace_id: str, cause: UnknownCause, since: datetime) -> RunDraft:
    """Facts that follow when nobody sees the body any more; none when that is known, or there is nothing to see."""
    draft, workspace = standing.draft(), standing.workspace(workspace_id)
    unsee_into(draft, workspace, cause, since)
    return draft


def unsee_into(draft: RunDraft, workspace: Workspace, cause: UnknownCause, since: datetime) -> None:
    """Put down that nobody sees the body any more; an unknown that began earlier goes on."""
    visible = workspace.phase in ("provisioning", "attaching", "running")
    if visible and workspace.unknown_since is None:
        draft.on_workspace(workspace.workspace_id, ContinuityUnknown(since=since, cause=cause))


def expect(standing: Standing, workspace_id: str, now: Moment) -> RunDraft:
    """Facts that follow when a full list does not name a body that has yet to come: whoever lists would see it come.

    None for one that was attached to, whose absence is its end, and for one that was not unknown.
    """
    draft, workspace = standing.draft(), standing.workspace(workspace_id)
    since = workspace.unknown_since
    if since is not None and workspace.phase in BEFORE_ATTACHMENT:
        draft.on_workspace(workspace_id, ContinuityRestored(unknown_since=since, restored_at=now.wall))
    return draft


def release(standing: Standing, workspace_id: str, command: Release, now: Moment) -> RunDraft:
    """Facts that follow when nobody needs the workspace any more; none when that was said before."""
    draft = standing.draft()
    release_into(draft, standing.workspace(workspace_id), command, now)
    return draft


def say_gone(standing: Standing, workspace_id: str, now: Moment) -> RunDraft:
    """Facts that follow when somebody who looked says that a body which is to be destroyed is no more.

    None when it is known to be destroyed. Raises ``WrongPhase`` for one that was not let go.
    """
    draft, workspace = standing.draft(), standing.workspace(workspace_id)
    if not workspace.teardown:
        raise WrongPhase(workspace_id=workspace_id, phase=workspace.phase, wanted="to be destroyed")
    if workspace.awaits_teardown:
        draft.on_workspace(workspace_id, WorkspaceDestroyed(cause=SAID_GONE, destroyed_at=now.wall))
    return draft


def reap(
    standing: Standing, workspace_id: str, last_asserted_at: datetime | None, idle_s: float, now: Moment
) -> RunDraft:
    """Facts that follow when nobody asserted the workspace for the idle time; none when it is kept or let go."""
    draft, workspace = standing.draft(), standing.workspace(workspace_id)
    if workspace.kept or workspace.teardown:
        return draft
    draft.on_workspace(
        workspace_id, WorkspaceReaped(last_asserted_at=last_asserted_at, idle_s=idle_s, reaped_at=now.wall)
    )
    if workspace.phase == "placing":
        destroy_unplaced(draft, workspace, now)
    return draft


def check_attach(command: Attach) -> None:
    """Refuse what is outside its bounds, naming the field, the value and the limit."""
    check_text("identity", command.identity, IDENTITY_MAX_CHARS)
    check_incarnation(command.incarnation)
    if len(command.details) > DETAILS_MAX:
        raise InvalidCommand(field="details", value=len(command.details), limit=f"at most {DETAILS_MAX} entries")
    for name, value in command.details.items():
        check_text("details", name, DETAIL_MAX_CHARS)
        if len(value) > DETAIL_MAX_CHARS:
            limit = f"at most {DETAIL_MAX_CHARS} characters"
            raise InvalidCommand(field=f"details.{name}", value=value[: DETAIL_MAX_CHARS + 1], limit=limit)


def check_incarnation(value: int | None) -> None:
    """Refuse a count that cannot be one; null is none."""
    if value is not None and not 0 <= value <= INCARNATION_MAX:
        raise InvalidCommand(field="incarnation", value=value, limit=f"between 0 and {INCARNATION_MAX}")


def refuse_over(workspace: Workspace) -> None:
    """Refuse a command on a workspace that has ended."""
    if workspace.over:
        raise WorkspaceOver(workspace_id=workspace.workspace_id, phase=workspace.phase, reason=workspace.reason)


def refuse_ended(workspace: Workspace, wanted: str) -> None:
    """Refuse a command on a workspace that has ended, or is to be destroyed."""
    refuse_over(workspace)
    if workspace.phase == "teardown":
        raise WrongPhase(workspace_id=workspace.workspace_id, phase=workspace.phase, wanted=wanted)


def refuse_other(workspace: Workspace, identity: str | None) -> None:
    """Refuse another body than the one that was named before."""
    if identity is not None and workspace.identity is not None and identity != workspace.identity:
        raise IdentityChanged(workspace_id=workspace.workspace_id, presented=identity, attached=workspace.identity)
