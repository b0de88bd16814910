"""Observers of the world: workers that watch a scope, under the fence of a run of their own.

An observer lists what is there, tells of one body at a time, or loses its view. It dies, is taken over, and goes on
telling under a fence that is not in force any more; a list that comes in parts may break off in the middle.
"""

from commands import claims, ending, scopes
from commands.claims import Ask
from commands.scopes import Batch, Part
from domain.observing import Observation
from domain.submission import Policy
from projections.live.grounds import OBSERVERS_QUEUE
from simulation.actors import Chooser, named
from simulation.history import History
from simulation.messages import Message
from simulation.truth import Body, Truth
from simulation.workers import Worker

WATCH = Policy(lease_ttl_s=4.0, max_attempts=50, quiet_after_s=0.0, total_after_s=0.0, retry_base_s=0.0)
OBSERVER_ACTS = (
    *("watch",) * 3, *("listing",) * 8, *("telling",) * 4, *("parts",) * 4, "blink", "let_go",
)  # fmt: skip


class Observer(Worker):
    """Watches one scope at a time, as far as it holds a run for it."""

    def __init__(self, name: str, chooser: Chooser, truth: Truth, history: History) -> None:
        super().__init__(name, 2, chooser, truth)
        self._history = history
        self._lists = 0
        self._under_way: tuple[str, int, str, str, list[tuple[str, Observation]]] | None = None

    def watch(self) -> Message:
        """It asks for a scope to watch."""
        ask = Ask(worker_id=self.name, queues=(OBSERVERS_QUEUE,), most=1)
        return self.message("wants to watch", lambda desk, caller: claims.claim(desk, caller, ask), self.granted())

    def ask(self) -> Message:
        """It asks for whatever there is to watch."""
        return self.watch()

    def let_go(self) -> Message | None:
        """It gives a scope up."""
        lease = self.lease()
        if lease is None:
            return None
        run_id, fence = lease
        self.stop_work(run_id, fence)
        return self.message(
            f"watches {named(run_id, fence)} no more",
            lambda desk, caller: ending.hand_back(desk, caller, run_id, fence),
            self._ends(run_id, fence),
            (run_id, fence, self.name),
        )

    def listing(self) -> Message | None:
        """It lists all of a scope, or only some of it."""
        lease = self.lease()
        if lease is None:
            return None
        scope, whole = self.scope_of(lease[0]), self.chooser.chance(70)
        bodies = [body for body in self.truth.of_scope(scope) if self._told(body)]
        if not whole:
            bodies = [body for body in bodies if self.chooser.chance(60)]
        seen = [(body.workspace_id, body.seen()) for body in bodies]
        return self._report(f"lists {len(seen)} in {scope}", lease, tuple(seen), synced=whole)

    def list_of(self, run_id: str, fence: int) -> Message:
        """It lists all of the scope that it watches for this run."""
        scope = self.scope_of(run_id)
        seen = tuple((body.workspace_id, body.seen()) for body in self.truth.of_scope(scope) if self._told(body))
        return self._report(f"lists {len(seen)} in {scope}", (run_id, fence), seen)

    def telling(self) -> Message | None:
        """It tells of one body, one of another scope at times, or that it does not see it."""
        lease, bodies = self.lease(), list(self.truth.bodies.values())
        if lease is None or not bodies:
            return None
        scope = self.scope_of(lease[0])
        ours = list(self.truth.of_scope(scope))
        body = self.chooser.pick(ours if ours and self.chooser.chance(90) else bodies)
        observation = Observation(kind="watch_dropped") if self.chooser.chance(20) else body.seen()
        text = f"tells {observation.kind} in {scope}"
        return self._report(text, lease, ((body.workspace_id, observation),), synced=False)

    def blink(self) -> Message | None:
        """It loses its view of everything."""
        lease = self.lease()
        if lease is None:
            return None
        scope = self.scope_of(lease[0])
        seen = tuple((body.workspace_id, Observation(kind="watch_dropped")) for body in self.truth.of_scope(scope))
        return self._report(f"sees nothing in {scope}", lease, seen, synced=False)

    def parts(self) -> Message | None:
        """It begins a list that comes in two parts, or sends the second."""
        if self._under_way is not None:
            run_id, fence, scope, sync_id, rest = self._under_way
            self._under_way = None
            part = Part(sync_id=sync_id, index=1, last=True)
            return self._report(f"ends {sync_id} of {scope}", (run_id, fence), tuple(rest), part=part)
        lease = self.lease()
        if lease is None:
            return None
        self._lists += 1
        scope, sync_id = self.scope_of(lease[0]), f"{self.name}-{self._lists}"
        seen = [(body.workspace_id, body.seen()) for body in self.truth.of_scope(scope) if self._told(body)]
        half = len(seen) // 2
        self._under_way = (*lease, scope, sync_id, seen[half:])
        part = Part(sync_id=sync_id, index=0, last=False)
        return self._report(f"begins {sync_id} of {scope}", lease, tuple(seen[:half]), part=part)

    def scope_of(self, run_id: str) -> str:
        """The scope that this run is to watch."""
        return str(self._history.standing(run_id).known.submission.concurrency_key)

    def _told(self, body: Body) -> bool:
        """Whether a full list names it: what has ended may be missing in one, what is there may not."""
        return body.end is None or self.chooser.chance(50)

    def _report(
        self,
        text: str,
        lease: tuple[str, int],
        seen: tuple[tuple[str, Observation], ...],
        *,
        synced: bool = True,
        part: Part | None = None,
    ) -> Message:
        (run_id, fence), scope = lease, self.scope_of(lease[0])
        batch = Batch(
            observer_id=self.name, run_id=run_id, fence=fence, scope=scope, seen=seen, synced=synced, part=part,
            as_of=self._history.position,
        )  # fmt: skip
        return self.message(
            f"{text} under {named(run_id, fence)}",
            lambda desk, caller: scopes.observe_scope(desk, caller, batch),
            right=(run_id, fence, self.name),
        )
