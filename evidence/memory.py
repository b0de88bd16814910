"""The evidence registers of an embedded node: who was seen when, in memory.

A renewal, a heartbeat or an activity changes a mark here and nothing in the journal. What *follows* from a mark is
journaled before it happens, and the fact carries the mark that it was judged by. Losing every mark is harmless: a
mark that is missing is made as now, never read as old, so a restart gives every lease its full ttl.

An expiry *takes* the mark it was judged by: while its append is under way there is no mark, so a renewal that arrives
in between finds none, waits for the append, and answers from the journal; an append that fails puts the mark back. A
mark that was taken is never let go of before its lease has ended or was granted anew, so putting it back needs nothing
but this register. Marks of activity are judged in the same way (``stalls``), and assertions (``evidence/grounds.py``).

All durations are on the monotonic scale of ``Moment``; instants ending in ``_at`` are for people.
"""

from datetime import datetime

import msgspec

from domain.lease import LeaseMark
from domain.values import Moment
from evidence.grounds import GroundMarks
from evidence.presence import PresenceMarks
from evidence.refused import RefusedWrites
from evidence.taken import Taken

TOOLS_MAX = 256
"""Tool calls of one run that are known to be in flight; of more, the oldest are forgotten."""

TURNS_TOLD_MAX = 64
"""Ended turns of one attempt of which the holder is known to know; of more, the oldest are forgotten."""


class Activity(msgspec.Struct, frozen=True):
    """The last sign of work on a run, and since when there has been none."""

    at: datetime
    mono: float


class LeaseMarks:
    """The last renewal of each held lease, by run."""

    def __init__(self) -> None:
        self._marks: dict[str, LeaseMark] = {}
        self._taken: dict[str, LeaseMark] = {}
        self._heard: dict[str, float] = {}
        """When each holder was last heard, by its grant or a renewal."""

    def __len__(self) -> int:
        return len(self._marks) + len(self._taken)

    def get(self, run_id: str) -> LeaseMark | None:
        """The mark, or None while an expiry has taken it."""
        return self._marks.get(run_id)

    def taken(self, run_id: str) -> bool:
        """Whether an expiry that is under way has taken the mark."""
        return run_id in self._taken

    def grant(self, run_id: str, fence: int, deadline: float, now: Moment) -> None:
        """A lease was granted: its mark is new."""
        self._taken.pop(run_id, None)
        self._marks[run_id] = LeaseMark(fence=fence, deadline=deadline, renewed_at=now.wall)
        self._heard[run_id] = now.mono

    def renew(self, run_id: str, mark: LeaseMark, ttl_s: float, now: Moment) -> None:
        """The holder was heard: the full ttl from now, on whatever road it came."""
        self._marks[run_id] = LeaseMark(
            fence=mark.fence, deadline=now.mono + ttl_s, renewed_at=now.wall, renewals=mark.renewals + 1
        )
        self._heard[run_id] = now.mono

    def shorten(self, run_id: str, broke: float, window_s: float) -> None:
        """The holder's last stream was closed by its side, then: at most so long from then, unless it was heard since.

        The fact that says so may come later than the renewal that made up for it.
        """
        mark, deadline = self._marks.get(run_id), broke + window_s
        if mark is not None and deadline < mark.deadline and self._heard[run_id] <= broke:
            self._marks[run_id] = msgspec.structs.replace(
                mark, deadline=deadline, detached=True, full_deadline=mark.ttl_deadline
            )

    def lengthen(self, run_id: str) -> None:
        """The holder is asked something: it has its whole ttl to be heard in, detached or not."""
        mark = self._marks.get(run_id)
        if mark is not None and mark.detached:
            whole = mark.ttl_deadline
            self._marks[run_id] = msgspec.structs.replace(mark, deadline=whole, detached=False, full_deadline=None)

    def extend(self, run_id: str, deadline: float) -> None:
        """The slice ended: one last ttl from then, whatever was renewed before."""
        mark = self._marks.get(run_id)
        if mark is not None:
            self._marks[run_id] = msgspec.structs.replace(mark, deadline=deadline, detached=False, full_deadline=None)

    def take(self, run_id: str) -> LeaseMark | None:
        """Remove the mark that an expiry is being judged by."""
        mark = self._marks.pop(run_id, None)
        if mark is not None:
            self._taken[run_id] = mark
        return mark

    def put_back(self, run_id: str) -> None:
        """The expiry did not happen after all: the mark is there as it was, unless the lease has ended meanwhile."""
        mark = self._taken.pop(run_id, None)
        if mark is not None:
            self._marks[run_id] = mark

    def drop(self, run_id: str) -> None:
        """The lease has ended."""
        for kept in (self._marks, self._taken, self._heard):
            kept.pop(run_id, None)


class Evidence:
    """All registers of one node."""

    def __init__(self) -> None:
        self.leases = LeaseMarks()
        self.presence = PresenceMarks()
        self.grounds = GroundMarks()
        self.refused = RefusedWrites()
        self.stalls = Taken()
        """Runs whose last activity is being judged by an append under way."""
        self.givings_up = Taken()
        """Workers whose last word is being judged by an append under way: their streams."""
        self._breaks: dict[tuple[tuple[str, str], datetime], float] = {}
        self._activity: dict[str, Activity] = {}
        self._tools: dict[str, dict[str, float]] = {}
        self._seen: dict[tuple[str, str], Moment] = {}
        self._broken: set[tuple[str, str]] = set()
        self._turns: dict[str, dict[int, None]] = {}

    def active(self, run_id: str, now: Moment) -> None:
        """An accepted output, partial, progress or effect write."""
        self._activity[run_id] = Activity(now.wall, now.mono)

    def activity(self, run_id: str) -> Activity | None:
        """The last activity of a run, if there was one since this node started."""
        return self._activity.get(run_id)

    def tool_started(self, run_id: str, tool_id: str, now: Moment) -> None:
        """A tool call of the run is in flight."""
        tools = self._tools.setdefault(run_id, {})
        tools[tool_id] = now.mono
        if len(tools) > TOOLS_MAX:
            del tools[next(iter(tools))]

    def tool_ended(self, run_id: str, tool_id: str) -> None:
        """A tool call of the run came back."""
        tools = self._tools.get(run_id)
        if tools is not None:
            tools.pop(tool_id, None)
            if not tools:
                del self._tools[run_id]

    def forget_tools(self, run_id: str) -> None:
        """The attempt that had called them has ended."""
        self._tools.pop(run_id, None)

    def tool_since(self, run_id: str) -> float | None:
        """Since when a tool call of the run has been in flight, the latest that is; None when none is."""
        tools = self._tools.get(run_id)
        return max(tools.values()) if tools else None

    def tell_turn(self, run_id: str, turn: int) -> None:
        """The holder has said itself how this turn ended, so it need not be told any more."""
        turns = self._turns.setdefault(run_id, {})
        turns[turn] = None
        if len(turns) > TURNS_TOLD_MAX:
            del turns[next(iter(turns))]

    def turn_told(self, run_id: str, turn: int) -> bool:
        """Whether the holder knows how the turn ended."""
        return turn in self._turns.get(run_id, ())

    def forget_turns(self, run_id: str) -> None:
        """The attempt that had them is over."""
        self._turns.pop(run_id, None)

    def forget_run(self, run_id: str) -> None:
        """The run has ended: no mark of it is left."""
        self._turns.pop(run_id, None)
        self._activity.pop(run_id, None)
        self._tools.pop(run_id, None)
        self.leases.drop(run_id)

    def broke(self, worker: tuple[str, str], at: Moment) -> None:
        """The last stream of a worker was closed by its side, then; the fact that says so is on its way."""
        self._breaks[worker, at.wall] = at.mono

    def broke_at(self, worker: tuple[str, str], at: datetime) -> float | None:
        """The moment of a break on the monotonic scale; None when its fact was not made in this life of the node."""
        return self._breaks.get((worker, at))

    def break_known(self, worker: tuple[str, str], at: datetime) -> None:
        """The fact about this break is there, or will not be."""
        self._breaks.pop((worker, at), None)

    def saw_worker(self, worker: tuple[str, str], now: Moment) -> None:
        """A worker was heard."""
        self._seen[worker] = now
        self._broken.discard(worker)

    def lost_worker(self, worker: tuple[str, str]) -> None:
        """The worker's last stream was closed by its side without a goodbye."""
        self._broken.add(worker)

    def hears_worker(self, worker: tuple[str, str], now: Moment, silent_s: float) -> bool:
        """Whether the worker was heard within so many seconds, and its last stream has not broken since."""
        seen = self._seen.get(worker)
        return seen is not None and worker not in self._broken and now.mono < seen.mono + silent_s

    def worker_seen(self, worker: tuple[str, str]) -> Moment | None:
        """When a worker was last heard by this node."""
        return self._seen.get(worker)

    def forget_worker(self, worker: tuple[str, str]) -> None:
        """The worker left or is gone."""
        self._seen.pop(worker, None)
        self._broken.discard(worker)

    def sizes(self) -> dict[str, int]:
        """How many marks are kept: none is left when nothing is under way."""
        return {
            "leases": len(self.leases),
            "activity": len(self._activity),
            "tools": len(self._tools),
            "workers": len(self._seen),
            "broken": len(self._broken),
            "turns": len(self._turns),
            "under way": len(self.stalls) + len(self.givings_up) + len(self.grounds.reaps) + len(self._breaks),
            **self.presence.sizes(),
            **self.grounds.sizes(),
        }
