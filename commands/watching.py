"""When nobody watches any more: workspaces become unknown, which is shown with its age, and is never a loss.

At a boot every workspace that an open run stands on is unknown since then: nobody can have told us anything before.
When the lease of an observer's run ends, so are the workspaces of the scopes that it watched; when a worker is gone, so
is what only that worker could see. An unknown that began earlier goes on. What ends it is a full list of whoever
watches (``commands.scopes``), or the worker's own word once it is back. Nobody has to look at what is left of a run
that has ended.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime

from commands.desk import Desk, entries_of, merged, system_caller
from domain.lease import Held, Lease
from domain.placing import unsee
from domain.standing import lease_stream
from domain.values import Moment
from domain.workspace_facts import UnknownCause
from evidence.grounds import ScopeKey
from journal.commit import Decision, Entry
from projections.live.cards import WorkerKey
from projections.live.grounds import GroundCard

BATCH = 500
"""Workspaces that become unknown in one append at a boot."""
SIDE_BY_SIDE = 64
"""Runs whose workspaces become unknown at the same time."""


async def unknown_since_boot(desk: Desk) -> int:
    """After a boot: whatever an open run stands on is unknown, until it is seen again; how many workspaces."""
    found = desk.live.grounds.cards.values()
    cards = [card for card in found if card.phase == "running" and card.run_id in desk.live.cards]
    for at in range(0, len(cards), BATCH):
        await _unsee(desk, cards[at : at + BATCH], "boot", ())
    return len(cards)


async def observer_gone(desk: Desk, scope: ScopeKey, run_id: str) -> bool:
    """The observer's lease has ended: what it watched is unknown; nothing when somebody else watches it by now."""
    observer = desk.evidence.grounds.observer(scope)
    if observer is not None and observer.run_id != run_id:
        return False
    lease: Lease = desk.journal.streams.load(lease_stream(run_id))
    if observer is not None and isinstance(lease, Held) and lease.fence == observer.fence:
        return False
    await _unsee_each_run(desk, desk.live.grounds.of_scope(scope), None)
    if desk.evidence.grounds.observer(scope) is observer:
        desk.evidence.grounds.unwatched(scope)
    return True


async def worker_unheard(desk: Desk, worker: WorkerKey, broke_from: float, heard_at: datetime) -> bool:
    """The worker is gone: what only it could see is unknown since it was last heard; nothing if it was heard again."""
    seen = desk.evidence.worker_seen(worker)
    if seen is not None and seen.mono > broke_from:
        return False
    found = desk.live.grounds.seen_only_by(worker, desk.live.limits.held_by(worker))
    found = [card for card in found if not _is_told_by_expiry(desk, card.run_id)]
    await _unsee_each_run(desk, found, heard_at)
    return bool(found)


def _is_told_by_expiry(desk: Desk, run_id: str) -> bool:
    """Whether the run's lease ends at this very instant, which says the same together with what follows from it."""
    lease: Lease = desk.journal.streams.load(lease_stream(run_id))
    mark = desk.evidence.leases.get(run_id)
    return isinstance(lease, Held) and (mark is None or mark.detached)


async def _unsee_each_run(desk: Desk, found: Iterable[GroundCard], since: datetime | None) -> None:
    """Put down, run by run, that whoever watched these is gone; the first failure is raised when all were tried."""
    runs: dict[str, list[GroundCard]] = {}
    for card in found:
        runs.setdefault(card.run_id, []).append(card)
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(cards: Sequence[GroundCard]) -> None:
        async with gate:
            await _unsee(desk, cards, "observer_gone", (cards[0].run_id,), since)

    done = await asyncio.gather(*map(one, runs.values()), return_exceptions=True)
    for failure in done:
        if isinstance(failure, BaseException):
            raise failure


async def _unsee(
    desk: Desk,
    cards: Iterable[GroundCard],
    cause: UnknownCause,
    locks: tuple[str, ...],
    since: datetime | None = None,
) -> None:
    """Put down in one append that nobody sees these any more; ``since`` is now where nobody knows better."""
    wanted = list(cards)

    def decision(now: Moment) -> Decision[None]:
        entries: list[Entry] = []
        guards: list[dict[str, int]] = []
        for card in wanted:
            if card.workspace_id in desk.live.grounds.cards and not card.over:
                standing = desk.standing(system_caller(card.tenant), card.run_id)
                draft = unsee(standing, card.workspace_id, cause, since or now.wall)
                entries += entries_of(draft.entries, card.run_id)
                guards.append(draft.versions)
        return Decision(entries, merged(guards), None)

    await desk.execute(system_caller(wanted[0].tenant), locks, decision)
