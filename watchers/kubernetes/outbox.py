"""What is still to be told, per workspace: the latest of each kind, in one order.

While the service does not answer, nothing piles up: a newer `present` replaces an older one, the highest restart stands
for those before it, and an end is kept once per kind. So the outbox is bounded by the number of bodies, and whoever was
away for an hour is told how things are, not how they went.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from jackline.workspaces.contract import LOSSES, Observation
from watchers.kubernetes.reports import Seen


@dataclass(slots=True)
class Pending:
    """What one workspace has to be told of."""

    restarted: Observation | None = None
    present: Observation | None = None
    sight: Observation | None = None
    ends: dict[str, Observation] = field(default_factory=dict)

    def add(self, seen: Observation) -> None:
        """One more observation."""
        if seen.kind in LOSSES:
            self.ends.setdefault(seen.kind, seen)
        elif seen.kind == "present":
            self.present = seen
        elif seen.kind == "harness_restarted":
            if self.restarted is None or (seen.incarnation or 0) >= (self.restarted.incarnation or 0):
                self.restarted = seen
        else:
            self.sight = seen

    def told(self) -> list[Observation]:
        """Everything, in the order in which it makes sense; of two with one incarnation the later one says why."""
        return [one for one in (self.present, self.restarted, self.sight, *self.ends.values()) if one is not None]


class Outbox:
    """Workspaces with something to tell, the longest waiting first."""

    def __init__(self) -> None:
        self._pending: OrderedDict[str, Pending] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, workspace_id: str, *observations: Observation) -> None:
        """Something was seen of a workspace."""
        pending = self._pending.setdefault(workspace_id, Pending())
        for one in observations:
            pending.add(one)

    def take(self, most: int) -> list[Seen]:
        """Up to so many observations, those of one workspace together; they are the taker's to deliver now."""
        taken: list[Seen] = []
        while self._pending:
            workspace_id = next(iter(self._pending))
            told = self._pending[workspace_id].told()
            if taken and len(taken) + len(told) > most:
                break
            del self._pending[workspace_id]
            taken += [(workspace_id, one) for one in told]
        return taken
