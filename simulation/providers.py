"""The provider of every body in the world: it destroys what is to be destroyed, and tells so."""

from commands import observing, workspaces
from commands.desk import Caller
from simulation.actors import Actor, Chooser
from simulation.holders import ground_name
from simulation.messages import Message
from simulation.truth import Truth


class Provider(Actor):
    """Whoever made the bodies, with an operator's rights."""

    def __init__(self, chooser: Chooser, truth: Truth) -> None:
        super().__init__(Caller(principal="pru", role="operator"), chooser)
        self._truth = truth

    def destroy(self, workspace_id: str) -> Message:
        """It destroys a body, if there is one, and tells that it is gone."""
        body = self._truth.make(workspace_id, None, 0.0)
        if body.end is None:
            body.end = ("gone", None, None)
        seen = [body.seen()]
        return self.message(
            f"has destroyed {ground_name(workspace_id)}",
            lambda desk, caller: observing.observe(desk, caller, workspace_id, seen),
        )

    def release(self, workspace_id: str) -> Message:
        """Nobody needs a body any more."""
        return self.message(
            f"releases {ground_name(workspace_id)}",
            lambda desk, caller: workspaces.release_workspace(desk, caller, workspace_id),
        )
