"""What becomes of the ground when its run ends: destroyed, kept, or left to age.

A *cancel* destroys everything that its run stood on, unless it says ``keep``. Any other end leaves what is there for
people to look at, until nobody has asserted it for the idle time. What was never placed has no body to look at and is
destroyed at once, whatever ended the run. A kept workspace is not reaped; only somebody who asks for it ends it.
"""

from domain.run_facts import CancelRequested
from domain.standing import RunDraft
from domain.values import Moment, Value
from domain.workspace import Workspace, workspace_stream
from domain.workspace_facts import ProvisionFaulted, WorkspaceDestroyed, WorkspaceReleased

SERVICE = "jackline"
NEVER_PLACED = "never_placed"
SAID_GONE = "said_gone"
"""Nobody who provides the body told of its end; an operator looked."""


class Release(Value, frozen=True, kw_only=True):
    """Who lets a workspace go, why, and whether its body is to stay."""

    keep: bool = False
    by: str = SERVICE
    cause: str


def release_after(draft: RunDraft, reason: str, now: Moment) -> None:
    """Put down what becomes of the workspaces of a run that this decision settles for this reason."""
    if not draft.standing.workspaces:
        return
    cancelled = reason == "cancelled"
    release = Release(keep=cancelled and _kept(draft), cause=reason)
    for workspace in draft.standing.workspaces:
        if workspace.phase == "placing" and not _faulted(draft, workspace):
            release_into(draft, workspace, Release(cause=reason), now)
        elif cancelled:
            release_into(draft, workspace, release, now)


def release_into(draft: RunDraft, workspace: Workspace, release: Release, now: Moment) -> None:
    """Put down that nobody needs the workspace any more; nothing when that was said before."""
    said = workspace.kept if release.keep else workspace.teardown
    if said or workspace.teardown:
        return
    draft.on_workspace(
        workspace.workspace_id,
        WorkspaceReleased(keep=release.keep, by=release.by, cause=release.cause, released_at=now.wall),
    )
    if workspace.phase == "placing" and not release.keep:
        destroy_unplaced(draft, workspace, now)


def destroy_unplaced(draft: RunDraft, workspace: Workspace, now: Moment) -> None:
    """Put down that there is no body, since none was ever made."""
    draft.on_workspace(workspace.workspace_id, WorkspaceDestroyed(cause=NEVER_PLACED, destroyed_at=now.wall))


def _kept(draft: RunDraft) -> bool:
    for _, fact in draft.entries:
        if isinstance(fact, CancelRequested):
            return fact.keep_workspaces
    cancel = draft.standing.known.cancel
    return cancel is not None and cancel.keep_workspaces


def _faulted(draft: RunDraft, workspace: Workspace) -> bool:
    """Whether this very decision says that the body never came to be: it stays to be looked at."""
    return any(
        isinstance(fact, ProvisionFaulted) and stream == workspace_stream(workspace.workspace_id)
        for stream, fact in draft.entries
    )
