"""The stored projections there are. One more is a module of its own and a line here."""

from projections.stored.effects import EFFECTS
from projections.stored.faults import ProjectionUnknown
from projections.stored.leaders import LEADERS
from projections.stored.projection import Projection
from projections.stored.queues import QUEUES
from projections.stored.runs_fold import RUNS
from projections.stored.timeline import TIMELINE
from projections.stored.usage import USAGE
from projections.stored.workers import WORKERS
from projections.stored.workspaces import WORKSPACES

PROJECTIONS: tuple[Projection, ...] = (RUNS, TIMELINE, LEADERS, WORKERS, WORKSPACES, QUEUES, EFFECTS, USAGE)
"""Every stored projection, in the order in which they are shown."""

NAMES = tuple(projection.name for projection in PROJECTIONS)


def named(names: tuple[str, ...] = ()) -> tuple[Projection, ...]:
    """The projections of these names, each once, in their own order; all when none is named.

    Raises:
        ProjectionUnknown: there is none of a name.
    """
    for name in names:
        if name not in NAMES:
            raise ProjectionUnknown(name, NAMES)
    return tuple(projection for projection in PROJECTIONS if not names or projection.name in names)
