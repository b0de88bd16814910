"""Observing: what watchers see of a body, and what follows. They report; only here is it decided.

    present            the body is there, under this identity, its harness started so many times
    gone               the body is not there any more
    ended              it is there and has ended for good (evicted, shut down)
    replaced           another body stands in its place, under the same name
    harness_restarted  what runs inside was started again
    watch_dropped      nobody sees it: unknown, never a loss
    synced             everything there is to see was listed

A report without identity is about the attached body, or about the one being provisioned before there is one. A report
about another body says nothing; another body that is *there* is refused, since only ``replaced`` may say that one took
the other's place. What is said at once for one workspace is first put together (``Seen``), so that one decision holds
one fact of a kind and the order inside a list hardly matters: an end of the body outweighs everything else about it,
the highest count of starts stands, and ``unknown`` ends only when the body was seen together with ``synced``.

Before attachment an end is a fault and never a loss. Only ``external``, ``directory`` and ``process`` bodies are
attached to by being seen; a Pod that is there may have nothing inside that answers yet. A report about a workspace
that has ended changes nothing: ends and views are satisfied by it, a body that is said to be alive is refused.

A repeat is harmless: what was seen before yields no facts, and a count that is behind is ignored when it comes with
the version that was applied last, and refused otherwise.
"""

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from domain.grounds import End, Fault, fault_into, lose_into
from domain.placing import Attach, attach_into, check_incarnation, refuse_other, refuse_over
from domain.refusal import InvalidCommand
from domain.restarting import Restart, restart_into
from domain.standing import Remains, RunDraft, Standing
from domain.values import Moment, Value
from domain.words import NO_WORDS, as_loss, joined, words_before
from domain.workspace import BEFORE_ATTACHMENT, Workspace
from domain.workspace_facts import (
    LOSS_REASONS,
    ContinuityRestored,
    ContinuityUnknown,
    LastSeen,
    LossReason,
    WorkspaceDestroyed,
    WorkspaceProvisioning,
)
from domain.workspace_refusals import (
    IDENTITY_MAX_CHARS,
    REASON_MAX_CHARS,
    VERSION_MAX_CHARS,
    IncarnationBackwards,
    check_message,
    check_text,
)

OBSERVATIONS_MAX = 1_000
"""Observations in one batch."""
EXIT_CODE_MAX = 2**31 - 1

Kind = Literal["present", "gone", "ended", "replaced", "harness_restarted", "watch_dropped", "synced"]
ENDS: frozenset[Kind] = frozenset({"gone", "ended", "replaced"})
ALIVE: frozenset[Kind] = frozenset({"present", "harness_restarted"})


class Observation(Value, frozen=True, kw_only=True):
    """One thing that was seen; ``version`` is what the watched system calls this state, opaque to us."""

    kind: Kind
    identity: str | None = None
    incarnation: int | None = None
    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None
    version: str | None = None


class Seen(Value, frozen=True, kw_only=True):
    """What a list of observations says about one workspace, put together."""

    alive: Observation | None = None
    """The last sight of the body itself."""
    identity: str | None = None
    """The body, as far as it is known after all this."""
    started: Observation | None = None
    """The one with the highest count of starts."""
    stranger: str | None = None
    """Another body that was said to be there."""
    end: Observation | None = None
    dropped: bool = False
    restored: bool = False
    last: LastSeen = NO_WORDS
    """The last words about the body, with those that were heard before."""


def check(observation: Observation) -> None:
    """Refuse an observation outside its bounds, naming the field, the value and the limit."""
    check_text("identity", observation.identity, IDENTITY_MAX_CHARS)
    check_text("reason", observation.reason, REASON_MAX_CHARS)
    check_text("version", observation.version, VERSION_MAX_CHARS)
    check_message(observation.message)
    check_incarnation(observation.incarnation)
    code = observation.exit_code
    if code is not None and not -EXIT_CODE_MAX <= code <= EXIT_CODE_MAX:
        limit = f"between {-EXIT_CODE_MAX} and {EXIT_CODE_MAX}"
        raise InvalidCommand(field="exit_code", value=code, limit=limit)
    if observation.kind in ENDS and observation.reason is not None and observation.reason not in LOSS_REASONS:
        raise InvalidCommand(field="reason", value=observation.reason, limit=f"one of {', '.join(LOSS_REASONS)}")


def observe(
    standing: Standing,
    workspace_id: str,
    observations: Sequence[Observation],
    last: LastSeen,
    rest: tuple[Remains, Moment],
) -> RunDraft:
    """Facts that follow from what was seen of one workspace, in one decision; all of it or nothing.

    Args:
        standing: how its run stands.
        workspace_id: which of the run's workspaces.
        observations: what was seen, in order.
        last: what was heard of the body before: a loss that comes without words gets these.
        rest: what the run would leave behind, and the present moment.

    Raises:
        InvalidCommand: a value is outside its bounds, or a reason is none of ``LOSS_REASONS``.
        WorkspaceUnknown: the run has no such workspace.
        WorkspaceOver: a body is said to be alive that ended before.
        IdentityChanged: another body is there, and nobody said that it replaced this one.
        IncarnationBackwards: fewer starts than were seen before.
    """
    for observation in observations:
        check(observation)
    draft, workspace, now = standing.draft(), standing.workspace(workspace_id), rest[1]
    if workspace.over or workspace.phase == "teardown":
        _after_its_end(draft, workspace, observations, now)
        return draft
    seen = put_together(workspace, observations, last)
    if seen.end is not None:
        _end(draft, workspace, seen, rest)
        return draft
    refuse_other(workspace, seen.stranger)
    if workspace.phase in BEFORE_ATTACHMENT:
        _appear(draft, workspace, seen, now)
    else:
        _count(draft, workspace, seen.started, now)
    _view(draft, workspace, seen, now)
    return draft


def words_after(workspace: Workspace, observations: Sequence[Observation], last: LastSeen) -> LastSeen:
    """The last words about the body once these observations of it were accepted; ``last`` were those before."""
    seen = put_together(workspace, observations, last)
    attaches = workspace.phase in BEFORE_ATTACHMENT and workspace.provider != "kubernetes" and seen.alive is not None
    return put_together(workspace, observations).last if attaches else seen.last


def put_together(workspace: Workspace, observations: Sequence[Observation], last: LastSeen = NO_WORDS) -> Seen:
    """What the observations say about this workspace as one; ``last`` was heard of it before."""
    seen, synced, sighted = Seen(identity=workspace.identity, last=words_before(workspace, last)), False, False
    for each in observations:
        ours = _ours(seen.identity, each)
        if each.kind in ALIVE and ours:
            sighted, seen = True, _sighted(workspace, seen, each)
        elif each.kind in ALIVE:
            seen = _with(seen, stranger=each.identity)
        elif each.kind in ENDS:
            seen = _with(seen, end=seen.end or _ending(workspace, seen.identity, each))
        elif each.kind == "synced":
            synced = True
        elif ours:
            synced = sighted = False
            seen = _with(seen, dropped=True, last=joined(seen.last, each.reason, each.message))
        if synced and sighted:
            seen = _with(seen, dropped=False)
    return _with(seen, restored=synced and sighted)


def _ours(known: str | None, seen: Observation) -> bool:
    return seen.identity is None or known is None or seen.identity == known


def _sighted(workspace: Workspace, seen: Seen, each: Observation) -> Seen:
    counts = each.kind == "harness_restarted" or each.incarnation is not None
    known = max(workspace.incarnation, _starts(workspace, seen.started) if seen.started else 0)
    starts = _starts(workspace, each) if counts else known
    heard = NO_WORDS if starts > known else seen.last
    last = seen.last if starts < known else joined(heard, each.reason, each.message)
    started = each if counts and (not seen.started or _weight(each) >= _weight(seen.started)) else seen.started
    return _with(seen, alive=each, identity=each.identity or seen.identity, started=started, last=last)


def _weight(each: Observation) -> tuple[int, bool]:
    """Of two equal counts, the one that says why it rose tells more."""
    return each.incarnation or 0, each.kind == "harness_restarted" and each.incarnation is not None


def _ending(workspace: Workspace, known: str | None, each: Observation) -> Observation | None:
    """The end, if it is one of this body."""
    if each.kind != "replaced":
        return each if _ours(known, each) else None
    if each.identity is not None and each.identity == workspace.identity:
        raise InvalidCommand(field="identity", value=each.identity, limit="that of the new body, or left out")
    return each


def _after_its_end(draft: RunDraft, workspace: Workspace, observations: Sequence[Observation], now: Moment) -> None:
    end = put_together(workspace, observations).end
    if end is not None and workspace.awaits_teardown:
        cause = end.reason or end.kind
        draft.on_workspace(workspace.workspace_id, WorkspaceDestroyed(cause=cause, destroyed_at=now.wall))
    elif any(each.kind in ALIVE for each in observations):
        refuse_over(workspace)


def _end(draft: RunDraft, workspace: Workspace, seen: Seen, rest: tuple[Remains, Moment]) -> None:
    end, (remains, now), words = seen.end, rest, seen.last
    assert end is not None
    default: LossReason = "Terminated" if end.kind == "ended" else "Deleted"
    if workspace.phase in BEFORE_ATTACHMENT:
        reason = end.reason or words.reason or default
        fault_into(draft, workspace, Fault(reason=reason, message=end.message or words.message), remains, now)
        return
    started = seen.started
    if started is not None and _starts(workspace, started) > workspace.incarnation:
        _count(draft, workspace, started, now)
    told = as_loss(words)
    lost = End(
        reason=cast(LossReason, end.reason or told.reason or default),
        message=end.message or told.message,
        exit_code=end.exit_code,
        incarnation=None if started is None else _starts(workspace, started),
        version=end.version,
    )
    lose_into(draft, workspace, lost, remains, now)


def _appear(draft: RunDraft, workspace: Workspace, seen: Seen, now: Moment) -> None:
    """Put down what a body's being there means before anybody attached to it."""
    if seen.alive is None:
        return
    identity = seen.identity or (workspace.workspace_id if workspace.provider == "external" else None)
    if identity is None:
        raise InvalidCommand(field="identity", value=None, limit=f"given for a {workspace.provider} workspace")
    if workspace.provider != "kubernetes":
        incarnation = 0 if seen.started is None else _starts(workspace, seen.started)
        attach = Attach(identity=identity, incarnation=incarnation, version=seen.alive.version)
        attach_into(draft, workspace, attach, now)
    elif workspace.phase != "attaching":
        draft.on_workspace(workspace.workspace_id, WorkspaceProvisioning(identity=identity, since=now.wall))


def _starts(workspace: Workspace, started: Observation) -> int:
    """The count of starts; a restart that was not counted is one more, unless it was applied before."""
    if started.incarnation is not None:
        return started.incarnation
    return workspace.incarnation + (0 if _applied(workspace, started) else 1)


def _applied(workspace: Workspace, seen: Observation) -> bool:
    return seen.version is not None and seen.version == workspace.observed


def _count(draft: RunDraft, workspace: Workspace, started: Observation | None, now: Moment) -> None:
    if started is None:
        return
    starts, known = _starts(workspace, started), workspace.incarnation
    if starts > known:
        restart = Restart(
            incarnation=starts,
            reason=started.reason,
            message=started.message,
            exit_code=started.exit_code,
            version=started.version,
        )
        restart_into(draft, workspace, restart, now)
    elif starts < known and not _applied(workspace, started):
        raise IncarnationBackwards(workspace_id=workspace.workspace_id, presented=starts, current=known)


def _view(draft: RunDraft, workspace: Workspace, seen: Seen, now: Moment) -> None:
    """Put down whether the body is seen, where that changes."""
    workspace_id, since = workspace.workspace_id, workspace.unknown_since
    if seen.restored and since is not None:
        draft.on_workspace(workspace_id, ContinuityRestored(unknown_since=since, restored_at=now.wall))
    elif seen.dropped and since is None and (workspace.phase != "placing" or seen.alive is not None):
        draft.on_workspace(workspace_id, ContinuityUnknown(since=now.wall, cause="watch_dropped"))


def _with(seen: Seen, **changes: object) -> Seen:
    return msgspec.structs.replace(seen, **changes)
