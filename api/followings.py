"""Who follows the runs of which leader: each fact goes to the open streams of the leader that wants its run.

A stream is told at most ``PENDING_MAX`` facts ahead of its reader; beyond that it is to be cut off.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from commands.desk import Desk
from domain.run import Run, run_stream
from evidence.presence import LeaderKey
from journal.mapper import Recorded

PENDING_MAX = 10_000


class Following:
    """One open presence stream: facts of the leader's runs that it has not been sent yet."""

    def __init__(self) -> None:
        self.bell = asyncio.Event()
        self.pending: list[Recorded] = []
        self.overrun = False

    def tell(self, fact: Recorded) -> None:
        """One more fact; beyond the bound the stream is to be cut off."""
        if len(self.pending) >= PENDING_MAX:
            self.overrun = True
        else:
            self.pending.append(fact)
        self.bell.set()

    def take(self) -> list[Recorded]:
        """What is to be sent now."""
        taken, self.pending = self.pending, []
        return taken


class Followings:
    """The open presence streams of this node, by leader."""

    def __init__(self) -> None:
        self._open: dict[LeaderKey, set[Following]] = {}

    @contextmanager
    def opened(self, leader: LeaderKey) -> Iterator[Following]:
        """A stream of this leader, told of its runs for as long as it is open."""
        following = Following()
        self._open.setdefault(leader, set()).add(following)
        try:
            yield following
        finally:
            streams = self._open[leader]
            streams.discard(following)
            if not streams:
                del self._open[leader]

    def heard(self, desk: Desk, facts: Sequence[Recorded]) -> None:
        """Facts have become durable: each goes to the streams of the leader that wants its run."""
        if not self._open:
            return
        for fact in facts:
            leader = leader_of(desk, fact)
            for following in self._open.get(leader, ()) if leader is not None else ():
                following.tell(fact)


def leader_of(desk: Desk, fact: Recorded) -> LeaderKey | None:
    """The leader that wants the run which this fact is one of; None for what is not a run's own fact."""
    run_id = fact.meta.correlation_id
    run = None if run_id is None or not fact.topic.startswith("run.") else desk.journal.streams.load(run_stream(run_id))
    if not isinstance(run, Run) or run.leader_id is None:
        return None
    return run.submission.tenant, run.leader_id
