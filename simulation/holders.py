"""What a worker does with the ground of its runs and with its turns, and what it tells of both.

It places workspaces, has bodies made, attaches to them, looks at them and tells what it sees, says that they are
needed, and lets them go. Now and then it names a body that is not the one, tells of a stranger's end, or looks away.
Turns are admitted, delivered, and end, or somebody else ends them first.
"""

from collections.abc import Callable
from typing import Any

from commands import observing, turns, workspaces
from commands.desk import Caller, Desk
from commands.turns import Named
from commands.workspaces import Step, Wish
from domain.observing import Observation
from domain.placing import Attach
from domain.values import NULL
from domain.workspace import Workspace
from domain.workspace_facts import Provider
from simulation.actors import named, short
from simulation.messages import Message, Reply
from simulation.truth import SCOPES, Body, Truth
from simulation.workers import Worker

PROVIDERS: tuple[Provider, ...] = ("external", "kubernetes", "directory", "process")
STRANGER = "stranger"
LATEST = 3
"""Workspaces of which a holder says at once that it needs them."""
"""A body that is none of ours, under the name of one that is."""

Ground = tuple[str, str, int]
"""A workspace, its run, and the fence that it was placed under."""


class Holder:
    """The hands of one worker: what it does with the ground that it placed, and with the turns that it admitted."""

    def __init__(
        self, worker: Worker, truth: Truth, look: Callable[[str], Workspace | None], clock: Callable[[], float]
    ) -> None:
        self.worker = worker
        self.placed: list[Ground] = []
        self.turns: list[tuple[str, int, int]] = []
        self._chooser = worker.chooser
        self._truth = truth
        self._look = look
        self._clock = clock

    def place(self, scope: str | None = None) -> Message | None:
        """It wants something for its run to stand on, in this scope or wherever."""
        lease = self.worker.lease()
        if lease is None:
            return None
        run_id, fence = lease
        wish = Wish(
            provider=self._chooser.pick(PROVIDERS),
            scope=scope or self._chooser.pick((None, *SCOPES, *SCOPES)),
            spec=NULL,
        )

        def heard(reply: Reply) -> None:
            if reply.refused is None and reply.answer:
                self.placed = [*self.placed, (reply.answer["workspace_id"], run_id, fence)][-6:]

        return self.worker.message(
            f"places {wish.provider} for {named(run_id, fence)}",
            lambda desk, caller: workspaces.place(desk, caller, run_id, fence, wish),
            heard,
            (run_id, fence, self.worker.name),
        )

    def make(self) -> Message | None:
        """The making of a body goes on."""
        workspace_id = self._mine(("placing", "provisioning", "attaching"))
        if workspace_id is None:
            return None
        step = Step(phase=self._chooser.pick(("waiting", "provisioning")), on=None)
        if step.phase == "waiting":
            step = Step(phase="waiting", on=self._chooser.pick(("node", "quota")), message="no room")
        if self._chooser.chance(50):
            step = Step(phase="attaching", identity=self._body(workspace_id).identity)
        return self._about(
            f"is {step.phase} for", workspace_id, lambda desk, caller: workspaces.move(desk, caller, workspace_id, step)
        )

    def attach(self) -> Message | None:
        """It stands on a body from now on; rarely it says that it is another one."""
        workspace_id = self._mine(("placing", "provisioning", "attaching", "running"))
        if workspace_id is None:
            return None
        body = self._body(workspace_id)
        identity = STRANGER if self._chooser.chance(6) and self._identity(workspace_id) else body.identity
        return self._attach(workspace_id, identity)

    def attaches(self, workspace_id: str) -> Message:
        """It stands on this body from now on."""
        return self._attach(workspace_id, self._body(workspace_id).identity)

    def _attach(self, workspace_id: str, identity: str) -> Message:
        command = Attach(identity=identity, incarnation=self._body(workspace_id).starts)
        return self._about(
            f"attaches to {identity} for",
            workspace_id,
            lambda desk, caller: workspaces.attach(desk, caller, workspace_id, command),
        )

    def tell(self) -> Message | None:
        """It tells what it sees, or that it sees nothing."""
        workspace_id = self._mine(("provisioning", "attaching", "running", "running", "teardown"))
        news = [each for each, _, _ in self.placed if self._news(each)]
        if news and self._chooser.chance(70):
            workspace_id = self._chooser.pick(news)
        body = None if workspace_id is None else self._truth.bodies.get(workspace_id)
        if workspace_id is None or body is None:
            return None
        seen = [body.seen()]
        if self._chooser.chance(25):
            seen = [Observation(kind="watch_dropped", message="the watch broke")]
        elif self._chooser.chance(30):
            seen.append(Observation(kind="synced"))
        if self._chooser.chance(12) and self._identity(workspace_id):
            seen = [Observation(kind=self._chooser.pick(("gone", "ended", "present")), identity=STRANGER), *seen]
        return self._about(
            f"tells {'+'.join(each.kind for each in seen)} of",
            workspace_id,
            lambda desk, caller: observing.observe(desk, caller, workspace_id, seen),
        )

    def tells(self, body: Body) -> Message:
        """It tells what it sees of this body."""
        seen, workspace_id = [body.seen()], body.workspace_id
        return self._about(
            f"tells {seen[0].kind} of",
            workspace_id,
            lambda desk, caller: observing.observe(desk, caller, workspace_id, seen),
        )

    def need(self) -> Message | None:
        """It says that it needs a workspace."""
        workspace_id = self._mine(("placing", "provisioning", "attaching", "running"))
        return None if workspace_id is None else self._need(workspace_id)

    def need_all(self) -> list[Message]:
        """It says of each of its latest workspaces that it needs it."""
        return [self._need(workspace_id) for workspace_id, _, _ in self.placed[-LATEST:]]

    def _need(self, workspace_id: str) -> Message:
        async def send(desk: Desk, caller: Caller) -> Any:
            return await workspaces.assert_needed(desk, caller, workspace_id)

        def heard(reply: Reply) -> None:
            if reply.refused is None:
                self._truth.asserted[workspace_id] = self._clock()

        return self._about("needs", workspace_id, send, heard)

    def let_go(self) -> Message | None:
        """It needs a workspace no more."""
        workspace_id = self._mine(("placing", "running", "lost"))
        if workspace_id is None:
            return None
        return self._about(
            "lets go of", workspace_id, lambda desk, caller: workspaces.release_workspace(desk, caller, workspace_id)
        )

    def admit(self) -> Message | None:
        """It is about to deliver a prompt, to what its run stands on or to nothing that is watched."""
        lease = self.worker.lease()
        if lease is None:
            return None
        run_id, fence = lease
        grounds = [each for each, of, _ in self.placed if of == run_id and self._phase(each) == "running"]
        return self.admit_in(
            run_id, fence, self._chooser.pick(grounds) if grounds and self._chooser.chance(85) else None
        )

    def admit_in(self, run_id: str, fence: int, ground: str | None) -> Message:
        """It is about to deliver a prompt of this run, to this workspace or to nothing that is watched."""

        def heard(reply: Reply) -> None:
            if reply.refused is None and reply.answer:
                self.turns = [*self.turns, (run_id, fence, reply.answer["turn"])][-5:]

        return self.worker.message(
            f"admits a turn of {named(run_id, fence)}",
            lambda desk, caller: turns.admit(desk, caller, run_id, fence, ground),
            heard,
            (run_id, fence, self.worker.name),
        )

    def turn(self) -> Message | None:
        """One of its turns gets further, or ends."""
        if not self.turns:
            return None
        current = [turn for turn in self.turns if self.worker.held.get(turn[0]) == turn[1]]
        run_id, fence, number = self._chooser.pick(current if current and self._chooser.chance(90) else self.turns)
        what = self._chooser.pick(
            ("delivers", "delivers", "is busy with", "is busy with", "completes", "fails", "notes")
        )
        return self._step(what, (run_id, fence, number))

    def step_last(self, what: str) -> Message | None:
        """The turn that it admitted last gets this far."""
        if not self.turns:
            return None
        return self._step(what, self.turns[-1])

    def _step(self, what: str, of: tuple[str, int, int]) -> Message:
        run_id, fence, number = of
        turn = Named(run_id=run_id, fence=fence, turn=number)

        async def send(desk: Desk, caller: Caller) -> Any:
            match what:
                case "delivers":
                    return await turns.deliver(desk, caller, turn, None)
                case "is busy with":
                    return await turns.move(desk, caller, turn, "busy")
                case "completes":
                    return await turns.complete(desk, caller, turn)
                case "fails":
                    return await turns.fail(desk, caller, turn, "broken", "it broke")
                case _:
                    return await turns.notice(desk, caller, turn, "conversation_new")

        return self.worker.message(
            f"{what} turn {number} of {named(run_id, fence)}", send, right=(run_id, fence, self.worker.name)
        )

    def _mine(self, meant: tuple[str, ...]) -> str | None:
        """A workspace that it placed: mostly one in a phase in which the act makes sense."""
        known = [workspace_id for workspace_id, _, _ in self.placed]
        fit = [each for each in known if self._phase(each) in meant]
        known = fit if self._chooser.chance(90) else known
        return self._chooser.pick(known) if known else None

    def _news(self, workspace_id: str) -> bool:
        """Whether something has become of the body that the service has yet to hear."""
        workspace, body = self._look(workspace_id), self._truth.bodies.get(workspace_id)
        if workspace is None or body is None or workspace.over:
            return False
        return body.end is not None or body.starts > workspace.incarnation

    def _phase(self, workspace_id: str) -> str | None:
        workspace = self._look(workspace_id)
        return None if workspace is None else workspace.phase

    def _identity(self, workspace_id: str) -> str | None:
        workspace = self._look(workspace_id)
        return None if workspace is None else workspace.identity

    def _body(self, workspace_id: str) -> Any:
        workspace = self._look(workspace_id)
        return self._truth.make(workspace_id, None if workspace is None else workspace.placed.scope, self._clock())

    def _about(
        self,
        text: str,
        workspace_id: str,
        send: Callable[[Desk, Caller], Any],
        heard: Callable[[Reply], None] = lambda reply: None,
    ) -> Message:
        return self.worker.message(f"{text} {ground_name(workspace_id)}", send, heard)


def ground_name(workspace_id: str) -> str:
    """A workspace, short."""
    return f"w{short(workspace_id)[1:]}"
