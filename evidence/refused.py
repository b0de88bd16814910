"""Writes that were refused for their fence: who tried, with which fence, how often, and when last.

A refused write changes nothing and is no fact. But a worker that goes on writing under a stale fence is what an
operator wants to see when a run was handed on, so it is remembered here, bounded and in memory: the last ``RUNS_MAX``
runs to which it happened, and for each the last ``WRITERS_MAX`` writers. Whatever is forgotten is only not shown.
"""

from collections import OrderedDict
from datetime import datetime

import msgspec

RUNS_MAX = 1_000
"""Runs that are remembered; beyond it the ones to which it has not happened for longest are forgotten."""

WRITERS_MAX = 8
"""Writers of one run (a principal and the fence it presented) that are remembered, likewise."""

Writer = tuple[str, int]
"""(principal, presented fence)."""


class RefusedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """What one writer tried: the fence it presented, why that gives no right, how often, and since when until when."""

    principal: str
    fence: int
    reason: str
    count: int
    first_at: datetime
    last_at: datetime


class RefusedWrites:
    """The register of one node."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, dict[Writer, RefusedWrite]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def note(self, run_id: str, writer: Writer, reason: str, at: datetime) -> None:
        """A write of this writer was refused once more."""
        writers = self._runs.pop(run_id, {})
        before = writers.pop(writer, None)
        writers[writer] = RefusedWrite(
            principal=writer[0],
            fence=writer[1],
            reason=reason,
            count=1 if before is None else before.count + 1,
            first_at=at if before is None else before.first_at,
            last_at=at,
        )
        self._runs[run_id] = writers  # put back as the most recent
        if len(writers) > WRITERS_MAX:
            del writers[next(iter(writers))]
        if len(self._runs) > RUNS_MAX:
            self._runs.popitem(last=False)

    def of(self, run_id: str) -> list[RefusedWrite]:
        """What was refused to the writers of a run, the latest first."""
        return list(reversed(self._runs.get(run_id, {}).values()))
