"""Telling that a run has been quiet, or worked on, for too long: a fact, once, and what its policy makes of it.

The activity that a quiet run is judged by is taken for as long as the append lasts: a sign of work that comes meanwhile
waits, and is answered by what came of it.
"""

from typing import Literal

from commands.desk import Desk, entries_of, merged, system_caller
from commands.judging import judged
from domain.lease import Held
from domain.quiet import Overdue, tell
from domain.run_facts import AttemptEnded
from domain.values import Moment
from domain.worker import Blame, quarantine, worker_stream
from journal.commit import Decision, Entry


async def tell_overdue(desk: Desk, run_id: str, kind: Literal["inactivity", "total"]) -> bool:
    """Journal that a clock of the run's work has run out, if it has; a stalled attempt quarantines its worker."""
    card = desk.live.cards.get(run_id)
    if card is None:
        return False
    caller, taken = system_caller(card.queue[0]), desk.evidence.stalls

    def decision(now: Moment) -> Decision[None]:
        taken.put_back(run_id)
        standing, overdue = desk.standing(caller, run_id), _overdue(desk, run_id, kind, now)
        if overdue is None:
            return Decision((), {}, None)
        draft = tell(standing, overdue, desk.remains(standing), now)
        if draft.entries and kind == "inactivity":
            taken.take(run_id)
        entries, guards = entries_of(draft.entries, run_id), [standing.versions]
        stalled = any(isinstance(fact, AttemptEnded) and fact.outcome == "stalled" for _, fact in draft.entries)
        if stalled and isinstance(standing.lease, Held):
            worker_id = standing.lease.worker
            stream, worker = worker_stream(caller.tenant, worker_id), desk.worker(caller, worker_id)
            blame = Blame(worker_id=worker_id, reason="stalled", cites=(draft.last(AttemptEnded),))
            facts = quarantine(worker, blame, now.wall, desk.timers.quarantine_s)
            entries += [Entry(stream, fact, None) for fact in facts]
            guards.append({stream: worker.version})
        return Decision(entries, merged(guards), None)

    done = await judged(desk, run_id, desk.execute(caller, (run_id,), decision), lambda: taken.put_back(run_id))
    return done.position is not None


def _overdue(desk: Desk, run_id: str, kind: Literal["inactivity", "total"], now: Moment) -> Overdue | None:
    clock, activity = desk.live.clocks.get(run_id), desk.evidence.activity(run_id)
    if clock is None:
        return None
    if kind == "total":
        due = clock.total_due()
        since = None if clock.since is None else now.wall_at(clock.since)
        after_s = clock.total_after_s
    else:
        due = desk.live.clocks.quiet_due(run_id)
        since, after_s = None if activity is None else activity.at, clock.quiet_after_s
    if due is None or since is None or now.mono < due:
        return None
    return Overdue(kind=kind, since=since.isoformat(), after_s=after_s)
