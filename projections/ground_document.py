"""The document of one workspace, as everybody is shown it, alone or in its run.

It is a pure function of the folded stream. What is not a fact (when it was last asserted, whether it still has to be,
the position of its last fact) is joined in by whoever shows it. Values are ready for ``msgspec.json.encode``.
"""

from typing import Any

from domain.workspace import Workspace


def brief(workspace: Workspace) -> dict[str, Any]:
    """What a run shows of a workspace that it stands on, or stood on."""
    return {
        "workspace_id": workspace.workspace_id,
        "provider": workspace.provider,
        "scope": workspace.placed.scope,
        "phase": workspace.phase,
        "identity": workspace.identity,
        "incarnation": workspace.incarnation,
        "lost": _lost(workspace),
        "fault": _fault(workspace),
        "waiting": _waiting(workspace),
        "unknown_since": workspace.unknown_since,
        "teardown": workspace.awaits_teardown,
        "destroyed_at": workspace.destroyed_at,
    }


def whole(workspace: Workspace) -> dict[str, Any]:
    """Everything that was decided about a workspace."""
    return brief(workspace) | {
        "run_id": workspace.placed.run_id,
        "spec": workspace.placed.spec,
        "details": workspace.details,
        "unknown_cause": workspace.unknown_cause,
        "harness": workspace.harness,
        "placed_at": workspace.placed.placed_at,
        "attached_at": workspace.attached_at,
    }


def _lost(workspace: Workspace) -> dict[str, Any] | None:
    lost = workspace.lost
    if lost is None:
        return None
    return {
        "reason": lost.reason,
        "message": lost.message,
        "exit_code": None if lost.exit is None else lost.exit.code,
        "pending": lost.pending,
        "at": lost.lost_at,
    }


def _fault(workspace: Workspace) -> dict[str, Any] | None:
    fault = workspace.fault
    return None if fault is None else {"reason": fault.reason, "message": fault.message, "at": fault.faulted_at}


def _waiting(workspace: Workspace) -> dict[str, Any] | None:
    waiting = workspace.waiting
    return None if waiting is None else {"on": waiting.on, "message": waiting.message, "since": waiting.since}
