"""How routes ask the stored read models: as fresh as ``api.views`` says, bounded by what the caller may see."""

from api.calls import Call
from api.views import fresh
from projections.stored.reading import Model


async def model_of(call: Call, name: str, min_position: int | None) -> Model:
    """The read model of this name, as fresh as the caller wants it.

    Raises:
        ReadModelBehind: it had not reached ``min_position`` in time.
        Stopping: the service began to stop first.
    """
    runner = call.node.runner
    assert runner is not None, "a read model is asked for before the boot has opened it"
    model = runner.models[name]
    await fresh(call, model, min_position)
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
