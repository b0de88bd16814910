"""How routes ask the stored read models: how fresh, bounded by what the caller may see.

With ``min_position`` a list waits, for ``BEHIND_S`` seconds at most, until its model has that position, and is refused
``read_model_behind`` when it has not. Without it, it waits ``FRESH_S`` at most for what was acknowledged before the
request came, and then shows what there is: ``position`` says how far that is.
"""

from contextlib import suppress

from api.calls import Call
from api.views import BEHIND_S, caught_up
from projections.stored.faults import ReadModelBehind
from projections.stored.reading import Model

FRESH_S = 1.0


async def model_of(call: Call, name: str, min_position: int | None) -> Model:
    """The read model of this name, as fresh as the caller wants it.

    Raises:
        ReadModelBehind: it had not reached ``min_position`` in time.
        Stopping: the service began to stop first.
    """
    runner = call.node.runner
    assert runner is not None, "a read model is asked for before the boot has opened it"
    model = runner.models[name]
    if min_position is not None:
        await caught_up(call.node, model.wait_for(min_position, BEHIND_S))
        return model
    position = call.desk.journal.position
    if model.position < position:
        with suppress(ReadModelBehind):
            await caught_up(call.node, model.wait_for(position, FRESH_S))
    return model


def seen_leaders(call: Call) -> tuple[str, ...] | None:
    """The leaders to whose runs the caller's key is bound; None when to none."""
    caller = call.caller
    bound = caller.leaders if caller.role == "leader" else None
    return None if bound is None else tuple(sorted(bound))


def seen_owners(call: Call) -> tuple[str, ...] | None:
    """The workers to whose runs the caller's key is bound; None when to none."""
    caller = call.caller
    bound = caller.workers if caller.role == "worker" else None
    return None if bound is None else tuple(sorted(bound))
