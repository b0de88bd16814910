"""Why a run stands where it stands: its workspaces in the answer of ``why``, and what happens to each of them next.

Pure, like the answer that it is joined to. Each workspace is shown as in its run, with how long it has been unknown and
one sentence of its own; the sentences of those that are in doubt or in the making follow the run's own.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from domain.standing import Standing
from domain.values import Moment, Value
from domain.workspace import Workspace, workspace_stream
from domain.workspace_facts import ContinuityUnknown, WorkspaceLost, WorkspaceProvisioning, WorkspaceWaiting
from journal.mapper import Recorded
from projections.coming import decides, when
from projections.document import fact_document
from projections.ground_document import brief
from projections.outlook import lost_as
from projections.why import followed

TOLD_MAX = 3
"""Workspaces whose sentences follow the run's own; the others have theirs beside them."""
NEVER = datetime.max.replace(tzinfo=UTC)
CAUSES = {
    "watch_dropped": "its watch was dropped",
    "observer_gone": "whoever observed it is gone",
    "holder_gone": "whoever held its run is gone",
    "boot": "the service was started",
}


class Footing(Value, frozen=True, kw_only=True):
    """A workspace, and when its clocks are due: instants for people, null where a clock does not run."""

    workspace: Workspace
    unknown_age_s: float | None = None
    seen_at: datetime | None = None
    """When it was seen last, where its holder is the only one to watch it and that one's connection broke."""
    provision_due: datetime | None = None
    idle_due: datetime | None = None


def with_grounds(
    answer: dict[str, Any], standing: Standing, footings: Sequence[Footing], facts: Sequence[Recorded], now: Moment
) -> dict[str, Any]:
    """The answer, with what the run stands on, and the facts that made those of them doubtful that are.

    Args:
        answer: why the run is as it is.
        standing: how it stands.
        footings: its workspaces, and when their clocks are due.
        facts: all facts correlated with the run.
        now: the present moment.
    """
    sentences = [outlook_of(standing, footing, now) for footing in footings]
    shown = [
        {
            **brief(footing.workspace),
            "unknown_age_s": footing.unknown_age_s,
            "seen_at": footing.seen_at,
            "next": sentence,
        }
        for footing, sentence in zip(footings, sentences, strict=True)
    ]
    coming = _in_order(answer, standing, footings, sentences)
    because = _because(answer["because"], [each.workspace for each in footings], facts)
    return {**answer, "because": because, "workspaces": shown, "next": coming}


def _in_order(answer: dict[str, Any], standing: Standing, footings: Sequence[Footing], sentences: Sequence[str]) -> str:
    """The run's own sentences and those of workspaces that matter; a body that is due before all else, first."""
    decisive = [clock["due_at"] for clock in answer["clocks"] if decides(clock["name"], standing)]
    matter = [one for one in zip(footings, sentences, strict=True) if _matters(one[0].workspace)][:TOLD_MAX]
    earliest = min(decisive, default=NEVER)
    first = [said for footing, said in matter if footing.provision_due and footing.provision_due < earliest]
    told = [*first, answer["next"], *(said for _, said in matter if said not in first)]
    return " ".join(said if place == 0 else said[0].upper() + said[1:] for place, said in enumerate(told))


def with_grounds_then(
    answer: dict[str, Any],
    workspaces: Sequence[Workspace],
    facts: Sequence[Recorded],
    at: datetime,
    following: Callable[[Workspace], Recorded | None],
) -> dict[str, Any]:
    """The answer about the past, with what the run stood on then, and what happened to each of them next.

    Args:
        answer: why the run was as it was.
        workspaces: what it stood on.
        facts: all facts correlated with the run, up to the place.
        at: the instant of the place.
        following: finds the next fact of a workspace.
    """
    shown = [
        {**brief(each), "unknown_age_s": _age_s(each, at), "next": followed(following(each))} for each in workspaces
    ]
    return {**answer, "because": _because(answer["because"], workspaces, facts), "workspaces": shown}


def _age_s(workspace: Workspace, at: datetime) -> float | None:
    since = workspace.unknown_since
    return None if since is None else round(max(0.0, (at - since).total_seconds()), 3)


def _because(because: list[dict[str, Any]], workspaces: Sequence[Workspace], facts: Sequence[Recorded]) -> Any:
    """The facts of the answer and, in their order, those that put a workspace in doubt or have it wait."""
    doubtful = {workspace_stream(each.workspace_id): _doubts(each) for each in workspaces if _matters(each)}
    found = {fact["position"]: fact for fact in because}
    latest: dict[tuple[str, type], Recorded] = {}
    for recorded in facts:
        if isinstance(recorded.fact, doubtful.get(recorded.stream, ())):
            latest[recorded.stream, type(recorded.fact)] = recorded
    for recorded in latest.values():
        found.setdefault(recorded.position, fact_document(recorded))
    return [found[position] for position in sorted(found)]


def _doubts(workspace: Workspace) -> tuple[type, ...]:
    if workspace.lost is not None:
        return (WorkspaceLost,)
    if workspace.unknown_since is not None:
        return (ContinuityUnknown,)
    return (WorkspaceWaiting, WorkspaceProvisioning)


def _matters(workspace: Workspace) -> bool:
    """Whether it is in doubt, in the making, or about to be decided on."""
    pending = workspace.lost is not None and workspace.lost.pending
    making = workspace.phase in ("placing", "provisioning", "attaching")
    return pending or making or workspace.unknown_since is not None


def outlook_of(standing: Standing, footing: Footing, now: Moment) -> str:
    """One sentence: what happens to this workspace next."""
    workspace = footing.workspace
    name = f"workspace {workspace.workspace_id}"
    if workspace.destroyed_at is not None:
        return f"{name} was destroyed and stays so."
    if workspace.awaits_teardown:
        return f"the body of {name} is to be destroyed; whoever provides it is told until it has been."
    match workspace.phase:
        case "placing":
            return _of_placing(workspace, name)
        case "provisioning" | "attaching":
            return _of_making(footing, name, now)
        case "running":
            return _of_running(footing, name, now)
        case _:
            return _of_ended(standing, footing, name, now)


def _of_placing(workspace: Workspace, name: str) -> str:
    waiting = workspace.waiting
    if waiting is None:
        return f"{name} waits, without a limit, for {workspace.provider} to make its body."
    said = f" ({waiting.message})" if waiting.message else ""
    return f"{name} waits, without a limit, for {_capacity(waiting.on)}{said}."


def _capacity(on: str) -> str:
    return "a node with room for it" if on == "node" else "its quota to have room for it"


def _of_making(footing: Footing, name: str, now: Moment) -> str:
    made = "is there and has yet to answer" if footing.workspace.phase == "attaching" else "is being made"
    if footing.provision_due is None:
        return f"the body of {name} {made}, and its clock stands still while nobody can see it."
    return (
        f"the body of {name} {made}; unless it is attached {when(footing.provision_due, now, at='by ')}, "
        "the attempt that placed it fails under its retry policy."
    )


def _of_running(footing: Footing, name: str, now: Moment) -> str:
    workspace = footing.workspace
    reaped = ""
    if footing.idle_due is not None:
        reaped = f"; unless somebody asserts it {when(footing.idle_due, now, at='by ')}, its body is destroyed"
    if workspace.unknown_since is None:
        if footing.seen_at is not None:
            seen = footing.seen_at.isoformat()
            return f"{name} was last seen at {seen}, by its holder, whose connection broke: it may be there{reaped}."
        return f"{name} is there and stays{reaped}."
    because = CAUSES.get(workspace.unknown_cause or "", "nobody sees it")
    return (
        f"whether {name} is there has been unknown since {workspace.unknown_since.isoformat()}, because {because}: "
        f"nothing follows from that, and the next full list of whoever watches it tells{reaped}."
    )


def _of_ended(standing: Standing, footing: Footing, name: str, now: Moment) -> str:
    workspace, lost = footing.workspace, footing.workspace.lost
    if lost is not None and lost.pending and lost.fence == standing.lease.fence and standing.known.acting is not None:
        code = None if lost.exit is None else lost.exit.code
        return f"{name} was lost ({lost_as(lost.reason, code)}), and its holder is asked first: its close decides."
    left = ""
    if footing.idle_due is not None:
        left = f"; what is left of it can be looked into until {when(footing.idle_due, now, at='')}"
    return f"{name} is {workspace.phase} ({workspace.reason}) and is given no second body{left}."
