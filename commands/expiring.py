"""What the process manager asks for when something falls due: each command reads again and may find nothing to do.

An expiry takes the evidence mark that it is judged by before its append and puts it back if the append fails, so that
a renewal in between is either before the expiry, or is answered by it; never both. Putting it back asks nobody: storage
that failed an append may fail to be read as well, and a lease without a mark would never end.
"""

from collections.abc import Callable

from commands.desk import Caller, Desk, entries_of, merged, system_caller
from commands.judging import judged
from commands.presence import settle_first
from commands.vouching import Ended, about_workers
from domain.claiming import lapse
from domain.handing import end_slice, expire
from domain.lease import Held
from domain.settling import cancel_due
from domain.standing import RunDraft, Standing
from domain.values import Moment
from domain.worker import gone, worker_stream
from journal.commit import Decision, Entry


async def expire_lease(desk: Desk, run_id: str) -> bool:
    """Journal that the run's lease is over, if it is, and what follows; whether it was.

    When the run's leader is gone at that very instant, its absence is decided first. A mark that is missing is made as
    now, and the lease has its whole ttl.
    """
    card = desk.live.cards.get(run_id)
    if card is not None:
        await settle_first(desk, card.leader, run_id)
    marks = desk.evidence.leases

    def decide(standing: Standing, now: Moment) -> RunDraft:
        if standing.mark is None and isinstance(standing.lease, Held):
            desk.live.tenures.mark_anew(run_id, standing.lease, now)
        draft = expire(standing, desk.remains(standing), now)
        if draft.entries:
            marks.take(run_id)
        return draft

    def put_back() -> None:
        marks.put_back(run_id)

    return await judged(desk, run_id, _on_due(desk, run_id, decide, before=put_back), put_back)


async def end_slice_of(desk: Desk, run_id: str, fence: int) -> bool:
    """Journal that the holder has held the lease for its slice."""

    def decide(standing: Standing, _: Moment) -> RunDraft:
        return end_slice(standing) if standing.lease.fence == fence else standing.draft()

    return await _on_due(desk, run_id, decide)


async def lapse_reservation(desk: Desk, run_id: str, token: str) -> bool:
    """Journal that a reservation was not bound in time; the run is queued as it was."""
    return await _on_due(desk, run_id, lambda standing, _: lapse(standing, token))


async def settle_cancel(desk: Desk, run_id: str) -> bool:
    """Settle a run whose cancel was asked for and whose grace has passed."""
    return await _on_due(desk, run_id, lambda standing, now: cancel_due(standing, desk.remains(standing), now))


async def _on_due(
    desk: Desk,
    run_id: str,
    decide: Callable[[Standing, Moment], RunDraft],
    before: Callable[[], None] = lambda: None,
) -> bool:
    card = desk.live.cards.get(run_id)
    if card is None:
        return False
    caller = system_caller(card.queue[0])

    def decision(now: Moment) -> Decision[None]:
        before()
        standing = desk.standing(caller, run_id)
        draft = decide(standing, now)
        about = about_workers(desk, caller, [Ended(standing, draft)], now)
        entries = entries_of(draft.entries, run_id) + about.entries
        return Decision(entries, merged([standing.versions, about.guards]), None)

    done = await desk.execute(caller, (run_id,), decision)
    return done.position is not None


async def give_up_worker(desk: Desk, tenant: str, worker_id: str) -> bool:
    """Journal that a worker is gone: unheard for too long, with no lease of it live."""
    caller: Caller = system_caller(tenant)
    stream, taken = worker_stream(tenant, worker_id), desk.evidence.givings_up

    def decision(now: Moment) -> Decision[None]:
        worker, seen = desk.worker(caller, worker_id), desk.evidence.worker_seen((tenant, worker_id))
        away = seen is not None and now.mono >= seen.mono + desk.timers.worker_gone_s
        due = away and not desk.live.fleet.busy((tenant, worker_id))
        facts = gone(worker, worker_id, seen.wall) if due and seen is not None else []
        if facts:
            taken.take(stream)
        return Decision([Entry(stream, fact, None) for fact in facts], {stream: worker.version}, None)

    done = await judged(desk, stream, desk.execute(caller, (stream,), decision), lambda: taken.put_back(stream))
    return done.position is not None
