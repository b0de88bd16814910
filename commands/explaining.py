"""Explaining a run: why it is as it is, or was as it was, and what stands in the way of one that nobody takes.

The facts are the run's own and those that they cite elsewhere (a leader's absence, for example), with what began it.
Beside them stands what is no fact: marks, clocks, limits in force, writes that were refused. Of the past only facts are
known; the answer says so, and in place of what would happen next stands what did.
"""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from commands.blocking import Place, blocks, place_of
from commands.desk import Caller, Desk
from commands.footings import footings, ground_clocks
from commands.showing import unknown_since
from domain.lease import FenceBumped, Held, LeaseBound
from domain.presence import LeaderGone, LeaderVanished, PresenceReseeded
from domain.standing import Standing
from domain.values import Moment
from domain.worker import worker_stream
from domain.workspace import Workspace, workspace_stream
from evidence.refused import RefusedWrite
from journal.mapper import Recorded
from projections.coming import Clock
from projections.hindsight import AsOf, next_after, standing_of, told_until
from projections.why import Case, Refused, why
from projections.why_grounds import with_grounds, with_grounds_then

FACTS_MAX = 10_000
"""Facts of one run that an explanation looks at: the latest ones, and the submission."""

BACK_MAX = 50
"""Facts of a leader's presence that are looked through for what began its absence."""


def explain(desk: Desk, caller: Caller, run_id: str) -> dict[str, Any]:
    """State, the facts that led to it, evidence, fence, clocks, what it waits for and what happens next.

    Raises:
        RunUnknown: there is none under this id in the caller's tenant.
    """
    standing, now = desk.standing(caller, run_id), desk.clock()
    facts, activity = _facts(desk, run_id), desk.evidence.activity(run_id)
    active_at = activity.at if activity else None
    case = Case(
        now=now,
        blocked=blocks(desk, standing, now, caller),
        queue=_shown(place_of(desk, standing)),
        refused=tuple(_named(facts, refused) for refused in desk.evidence.refused.of(run_id)),
        last_activity_at=active_at,
        quiet_since=active_at,
        unknown_since=unknown_since(standing.workspaces),
        broke_at=_broke_at(desk, standing),
        clocks=tuple(_clocks(desk, run_id, now)),
        cited=lambda citation: _cited(desk, citation),
    )
    return with_grounds(why(standing, facts, case), standing, footings(desk, standing, now, case.broke_at), facts, now)


def explain_then(desk: Desk, run_id: str, place: AsOf) -> dict[str, Any]:
    """The same of a place in the journal, from facts alone, with what happened to the run next.

    Raises:
        RunNotYet: the run was submitted later.
    """
    store = desk.journal.store
    told = told_until(store, run_id, place)
    case = Case(
        now=Moment(place.recorded_at, 0.0),
        as_of=place,
        followed=next_after(store, run_id, place.position),
        cited=lambda citation: _cited(desk, citation),
    )
    standing = standing_of(run_id, told)

    def following(workspace: Workspace) -> Recorded | None:
        return _fact_at(desk, workspace_stream(workspace.workspace_id), workspace.version + 1)

    answer = why(standing, told, case)
    return with_grounds_then(answer, standing.workspaces, told, place.recorded_at, following)


def _broke_at(desk: Desk, standing: Standing) -> datetime | None:
    """When the connection of the run's holder broke; None when it was heard since, or nobody holds the run."""
    lease, mark = standing.lease, standing.mark
    if not isinstance(lease, Held) or mark is None or mark.fence != lease.fence:
        return None
    worker = desk.journal.streams.load(worker_stream(standing.known.submission.tenant, lease.worker))
    broke_at: datetime | None = getattr(worker, "detached_at", None)
    return broke_at if broke_at is not None and broke_at >= mark.renewed_at else None


def _shown(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else {"name": place.queue, "ahead": place.ahead, "depth": place.depth}


def _named(facts: list[Recorded], refused: RefusedWrite) -> Refused:
    """A refused write with the worker that the presented fence was granted to, if there was one."""
    granted = (
        recorded.fact.worker
        for recorded in facts
        if isinstance(recorded.fact, FenceBumped | LeaseBound) and recorded.fact.fence == refused.fence
    )
    return Refused(worker=next(granted, None), write=refused)


def _cited(desk: Desk, citation: str) -> list[Recorded]:
    """A fact that is cited from another stream, and what began the absence if it says that a leader is gone."""
    stream, _, version = citation.rpartition("@")
    found = _fact_at(desk, stream, int(version)) if version.isdigit() else None
    if found is None:
        return []
    if isinstance(found.fact, LeaderGone):
        return [*_began(desk, found, found.fact), found]
    return [found]


def _began(desk: Desk, gone: Recorded, fact: LeaderGone) -> list[Recorded]:
    for version in range(gone.version - 1, max(0, gone.version - BACK_MAX), -1):
        earlier = _fact_at(desk, gone.stream, version)
        if earlier is None:
            break
        began = isinstance(earlier.fact, LeaderVanished | PresenceReseeded)
        if began and earlier.fact.zero_since == fact.zero_since:  # type: ignore[attr-defined]
            return [earlier]
    return []


def _fact_at(desk: Desk, stream: str, version: int) -> Recorded | None:
    store = desk.journal.store
    stored = store.stored_at(stream, version)
    return None if stored is None else next(iter(store.facts_at([stored[0]])), None)


def _clocks(desk: Desk, run_id: str, now: Moment) -> Iterator[Clock]:
    """The clocks about the run's leader and about its work, as far as they are running."""
    card, work, grace_s = desk.live.cards.get(run_id), desk.live.clocks.get(run_id), desk.timers.leader_grace_s
    leader = None if card is None or card.leader is None else desk.live.leaders.get(card.leader)
    gone = None if leader is None else leader.due(run_id, grace_s)
    if gone is not None:
        yield Clock("leader_grace", now.wall_at(gone - grace_s), now.wall_at(gone))
    quiet, activity = desk.live.clocks.quiet_due(run_id), desk.evidence.activity(run_id)
    if quiet is not None:
        yield Clock("inactivity", activity.at if activity else None, now.wall_at(quiet))
    total = None if work is None else work.total_due()
    if work is not None and total is not None:
        yield Clock("total", now.wall_at(total - work.total_after_s), now.wall_at(total))
    yield from ground_clocks(desk, run_id, now)


def _facts(desk: Desk, run_id: str) -> list[Recorded]:
    facts = desk.journal.store.facts_of(run_id, 0, FACTS_MAX)
    kept, page = deque(facts, maxlen=FACTS_MAX), facts
    while len(page) == FACTS_MAX:
        page = desk.journal.store.facts_of(run_id, page[-1].position, FACTS_MAX)
        kept.extend(page)
    return list(kept) if kept[0] is facts[0] else [facts[0], *kept]
