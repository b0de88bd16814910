"""Promise: a heartbeat session that is not heard for its ttl is a dropped connection, as of the end of that ttl."""

from commands.presence import end_session
from policies.reaction import Again, Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """End the session if its ttl has run out; look again if it was heard."""
    leader, session_id = (due.subject[0], due.subject[1]), due.subject[2]
    mark = scene.evidence.presence.session(leader, session_id)
    if mark is None:
        return None
    if scene.now.mono < mark.deadline:
        return Again(mark.deadline)
    return Do("end_session", lambda desk: end_session(desk, leader, session_id, "expired"))
