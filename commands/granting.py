"""A grant on its way into the journal: its runs and its places in the limits are nobody else's until it is known.

Whatever was picked for a grant is *earmarked*. If the append is refused because something moved, the earmarks are given
back before the decision is made anew; if it fails, they are given back as soon as the journal can say that there is no
grant; and when the caller goes away in the middle, they stay until the append that nobody waits for has ended. So two
claims never share a run or a place, and nothing is lost by an error.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from commands.desk import Caller, Desk
from domain.lease import Lease
from domain.run import Absent, Run, run_stream
from domain.standing import lease_stream
from domain.values import Moment
from journal.commit import Decision, Done
from projections.live.cards import Card, WorkerKey
from projections.live.limits import Earmark

log = logging.getLogger(__name__)

DOUBT_S = 1.0
"""How long until storage that could not tell the outcome of a grant, or refused one that was picked, is asked again."""


class Picks:
    """What is earmarked for one grant."""

    def __init__(self, desk: Desk, worker: WorkerKey) -> None:
        self.worker = worker
        self._desk = desk
        self._earmarks: list[Earmark] = []

    def __len__(self) -> int:
        return len(self._earmarks)

    def earmark(self, card: Card) -> None:
        """This run is to be granted."""
        self._earmarks.append(self._desk.live.earmark(card, self.worker))

    def drop_last(self, now: Moment, *, requeue: bool = True) -> None:
        """The run that was picked last is not to be granted after all, at this moment: it is queued as before.

        Without ``requeue`` it is out of its queue until the journal is asked, a moment later, whether it belongs there;
        it would be picked and refused again and again.
        """
        earmark = self._earmarks.pop()
        if requeue:
            self._give_back(earmark, now)
        else:
            self._desk.live.give_up(earmark, now.mono + DOUBT_S)

    def granted(self) -> None:
        """The grant is a fact, which has taken everything over but what was lent."""
        for earmark in self._earmarks:
            if earmark.holding is None:
                self._desk.live.limits.unlend(earmark.run_id, earmark.worker)
        self._earmarks.clear()

    def give_back(self) -> None:
        """There is no grant of these, or it is unknown whether there is: whoever is next may have what is free."""
        while self._earmarks:
            self._give_back(self._earmarks.pop(), self._desk.clock())

    def _give_back(self, earmark: Earmark, now: Moment) -> None:
        live = self._desk.live
        try:
            live.give_back(earmark, *_as_recorded(self._desk, earmark.run_id), now)
        except Exception:
            log.exception("storage cannot tell whether run %s was granted; it is asked again", earmark.run_id)
            live.doubt(earmark, now.mono + DOUBT_S)


def _as_recorded(desk: Desk, run_id: str) -> tuple[Run | Absent, Lease]:
    load = desk.journal.streams.load
    return load(run_stream(run_id)), load(lease_stream(run_id))


async def grant(
    desk: Desk,
    caller: Caller,
    worker: WorkerKey,
    locks: Sequence[str],
    decide: Callable[[Picks, Moment], Decision[Any]],
) -> Done[Any]:
    """Carry out a decision that grants what it picks."""
    picks = Picks(desk, worker)
    known = f"grant {desk.number()}"

    def decision(now: Moment) -> Decision[Any]:
        picks.give_back()
        return decide(picks, now)

    try:
        done = await desk.execute(caller, (*locks, known), decision)
    except Exception:
        picks.give_back()
        raise
    except BaseException:
        if picks:
            desk.afterwards(_when_known(desk, picks, known))
        raise
    if done.repeated:
        picks.give_back()
    picks.granted()
    return done


async def _when_known(desk: Desk, picks: Picks, known: str) -> None:
    """The caller is gone, and its append may still be under way: it keeps its key until it has ended."""
    await desk.journal.quiet(known)
    picks.give_back()


async def find_out(desk: Desk, subject: tuple[str, ...]) -> bool:
    """Ask the journal again about grants of unknown outcome, or one that was refused; whether there was any."""
    doubtful, run_id = desk.live.doubtful, subject[0]
    earmarks = doubtful.get(subject)
    if earmarks is None:
        return False
    run, lease = _as_recorded(desk, run_id)
    for earmark in earmarks:
        desk.live.give_back(earmark, run, lease, desk.clock())
    desk.live.queue_again(run_id, run, lease, desk.clock())
    del doubtful[subject]
    return True
