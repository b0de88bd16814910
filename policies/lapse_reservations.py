"""Promise: a reservation that is not bound in time gives its slot back and consumes nothing."""

from commands.expiring import lapse_reservation
from policies.reaction import Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Lapse the reservation if it is still in force under this token."""
    run_id, token = due.subject[0], due.mark
    if scene.live.reservations.get(token) != run_id:
        return None
    return Do("lapse_reservation", lambda desk: lapse_reservation(desk, run_id, token))
