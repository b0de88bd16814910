"""One leader, present for as long as a block lasts."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from jackline._sync.runs import Runs
from jackline.aside import Aside
from jackline.errors import FactsMissed, Unknown
from jackline.models import Fact, Settled, Submission, SubmitOptions, Submitted
from jackline.presence import Presence


class Leader:
    """A leader of runs: `async with client.leader("ada") as leader`.

    Entering returns once the service counts the leader as connected, and raises its refusal, or `Unknown` when nobody
    has answered within the client's patience. From then on the connection is kept, whatever happens to it. Leaving is
    a polite end; the runs that are still open then have the leader's grace to see it back.
    """

    def __init__(self, runs: Runs, leader_id: str) -> None:
        transport = runs.transport
        self.leader_id = leader_id
        self._runs = runs
        self._clock = transport.clock
        self._patience_s = transport.retry.patience_s
        self._presence = Presence(transport.address, transport.clock, leader_id)
        self._aside = Aside(self._presence.run)
        self._presence.changed = self._aside.stir
        self._left = False

    @property
    def connected_by(self) -> Literal["stream", "session"] | None:
        """How the leader is present now; None while the service cannot be reached."""
        return self._presence.by

    @property
    def away_since(self) -> datetime | None:
        """Since when the leader had been away when the service greeted it last; None when it had not been."""
        return self._presence.away_since

    @property
    def settled_while_away(self) -> list[Settled]:
        """The leader's runs that were settled while it was away: before it came, and in every absence since."""
        return list(self._presence.settled)

    def submit(self, payload: Any = None, **options: Unpack[SubmitOptions]) -> Submitted:
        """The receipt for a new run of this leader."""
        options["leader_id"] = self.leader_id
        return self._runs.submit(payload, **options)

    def submit_many(self, runs: Sequence[Submission]) -> list[Submitted]:
        """Receipts for up to 1,000 runs of this leader, in order; all are submitted or none."""
        return self._runs.submit_many([{**run, "leader_id": self.leader_id} for run in runs])

    def facts(self) -> Iterator[Fact]:
        """Facts of the leader's runs as they happen, each once, from the leader's arrival until it leaves.

        Raises `FactsMissed` when more than 10,000 have come that nobody took, and the refusal that ended the presence.
        """
        while True:
            mark = self._aside.mark
            while self._presence.facts and not self._presence.missed:
                yield self._presence.facts.popleft()
            if self._presence.missed:
                missed, self._presence.missed = self._presence.missed, 0
                msg = f"{missed} facts of the runs of leader {self.leader_id} came that nobody took in time"
                raise FactsMissed(msg)
            if self._presence.failure is not None:
                raise self._presence.failure
            if self._left:
                return
            self._aside.after(mark)

    def leave(self) -> None:
        """End the presence now; the end of the block does it by itself."""
        self._aside.stop()
        self._left = True
        self._aside.stir()

    def __enter__(self) -> Self:
        self._aside.start()
        try:
            self._arrive()
        except BaseException:
            self.leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def _arrive(self) -> None:
        until = self._clock.now() + self._patience_s
        while True:
            mark = self._aside.mark
            if self._presence.failure is not None:
                raise self._presence.failure
            if self._presence.by is not None:
                return
            left_s = until - self._clock.now()
            if left_s <= 0:
                msg = f"leader {self.leader_id} could not be connected within {self._patience_s:g} s"
                raise Unknown(msg)
            self._aside.after(mark, left_s)
