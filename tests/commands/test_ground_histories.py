"""Random histories of ground: whatever is seen, missed, repeated and refused, its laws hold and a replay agrees.

One loss for each workspace, one end for each turn, nothing that settles because nobody looked, and nothing left when
everything is let go. Storage fails now and then, before or after the append: then the same is said again.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from commands import ending, steering, turns, workers, workspaces
from commands.boot import open_desk
from commands.desk import Timers
from commands.turns import Named
from commands.watching import unknown_since_boot
from domain.handing import Park
from domain.refusal import Refusal
from domain.run_facts import RunSettled
from domain.turn_facts import TurnCompleted, TurnCut, TurnFailed
from domain.workspace_facts import WorkspaceLost
from journal.errors import Unavailable
from policies.manager import Manager
from tests.commands.books import books, leftovers
from tests.commands.clockwork import VirtualLoop
from tests.commands.ground import SCOPE, attached, observer, placed, report, saw, see
from tests.commands.world import ADMIN, World, closing, opened

STEPS = 50
LOSSES = ["PodDeleted", "Evicted", "ProcessExited", "PodFailed", None]


class Fate:
    """Random acts around what runs stand on, by a seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.runs: list[str] = []
        self.grounds: list[str] = []
        self.watch: tuple[str, int] | None = None
        self.story: list[str] = []

    async def act(self) -> None:
        """One act of somebody; a refusal is an answer like any other."""
        name = self.random.choice(sorted(ACTS))
        try:
            await ACTS[name](self)
            self.story.append(name)
        except (Refusal, Unavailable) as refusal:
            self.story.append(f"{name}: {refusal.code}")

    def leased(self) -> tuple[str, int]:
        """A run, and the fence in force."""
        run_id = self.random.choice(self.runs) if self.runs else "none"
        return run_id, int(self.world.desk.journal.streams.load(f"lease-{run_id}").fence)

    def ground(self) -> str:
        """One of the workspaces."""
        return self.random.choice(self.grounds) if self.grounds else "none"

    async def hold(self) -> None:
        """A worker takes a new run, or one that is queued."""
        queued = [run_id for run_id in self.runs if self.world.state(run_id) == "queued"]
        if queued and self.random.random() < 0.5:
            await self.world.claim_run(queued[0], "w1")
            return
        policy: dict[str, Any] = {"on_workspace_lost": self.random.choice(["settle_lost", "retry_fresh", "park"])}
        policy |= {"quiet_after_s": 0.0, "total_after_s": 0.0}
        run_id, _ = await self.world.held("w1", ttl=self.random.choice([10, 60]), attempts=3, **policy)
        self.runs.append(run_id)

    async def place(self) -> None:
        """A holder places a workspace, and somebody may attach to it."""
        provider = self.random.choice(["external", "kubernetes", "directory"])
        scope = self.random.choice([None, SCOPE])
        workspace_id = await placed(self.world, *self.leased(), provider=provider, scope=scope)
        self.grounds.append(workspace_id)
        if self.random.random() < 0.7:
            await attached(self.world, workspace_id, f"body of {workspace_id}", self.random.choice([0, 1]))

    async def observe(self) -> None:
        """Something is seen of a workspace, twice if storage fails."""
        kind: Any = self.random.choice(["present", "present", "gone", "ended", "replaced", "watch_dropped", "synced"])
        what: dict[str, Any] = {}
        if kind in ("gone", "ended"):
            what["reason"] = self.random.choice(LOSSES)
        await self.twice(self.ground(), kind, what)

    async def restart(self) -> None:
        """What runs inside starts again."""
        what = {"incarnation": self.random.choice([0, 1, 2, 5]), "reason": self.random.choice([None, "OOMKilled"])}
        await self.twice(self.ground(), "harness_restarted", what)

    async def twice(self, workspace_id: str, kind: Any, what: dict[str, Any]) -> None:
        """Say it; when storage fails, before or after the append, say it again."""
        if self.random.random() < 0.3:
            self.world.gate.fails(after_all=self.random.random() < 0.5)
        try:
            await see(self.world, workspace_id, saw(kind, **what))
        except Unavailable:
            self.world.gate.fails(0)
            await see(self.world, workspace_id, saw(kind, **what))
        finally:
            self.world.gate.fails(0)

    async def report(self) -> None:
        """An observer lists its scope, all or some of it."""
        if self.watch is None:
            self.watch = await observer(self.world)
        named = [(each, saw("present")) for each in self.grounds if self.random.random() < 0.8]
        await report(self.world, self.watch, *named, synced=self.random.random() < 0.7)

    async def blind(self) -> None:
        """The observer ends."""
        if self.watch is not None:
            watch, self.watch = self.watch, None
            await self.world.close(*watch)

    async def turn(self) -> None:
        """A turn is admitted, and gets as far as it does."""
        run_id, fence = self.leased()
        workspace_id = self.random.choice([None, self.ground()])
        number = (await turns.admit(self.world.desk, ADMIN, run_id, fence, workspace_id)).answer["turn"]
        named = Named(run_id=run_id, fence=fence, turn=number)
        if self.random.random() < 0.7:
            await turns.deliver(self.world.desk, ADMIN, named, None)
        if self.random.random() < 0.4:
            await turns.complete(self.world.desk, ADMIN, named)

    async def let_go(self) -> None:
        """A run or a workspace is let go."""
        run_id, fence = self.leased()
        keep = self.random.random() < 0.5
        acts: list[Callable[[], Awaitable[Any]]] = [
            lambda: ending.close(self.world.desk, ADMIN, closing(run_id, fence, "failed")),
            lambda: ending.park(self.world.desk, ADMIN, run_id, fence, Park(kind="waiting_input", keep_lease=keep)),
            lambda: steering.cancel(self.world.desk, ADMIN, run_id, keep_workspaces=keep),
            lambda: workspaces.release_workspace(self.world.desk, ADMIN, self.ground()),
        ]
        await self.random.choice(acts)()

    async def stay(self) -> None:
        """A worker is heard with all that it holds."""
        held = self.world.desk.live.limits.held_by(("default", "w1"))
        await self.world.beat("w1", *((each, self.world.desk.standing(ADMIN, each).lease.fence) for each in held))

    async def wait(self) -> None:
        """Time passes."""
        await self.world.later(self.random.choice([1, 5, 15, 60, 400]))


ACTS: dict[str, Callable[[Fate], Awaitable[None]]] = {
    f"{name} {number}": getattr(Fate, name)
    for name, weight in {
        "hold": 3, "place": 4, "observe": 5, "restart": 2, "report": 2, "blind": 1, "turn": 3, "let_go": 2, "stay": 4,
        "wait": 2,
    }.items()
    for number in range(weight)
}  # fmt: skip


async def lived(seed: int) -> None:
    """Live through one history; look at its laws, at what a replay makes of it, and at what is left at the end."""
    async with opened() as world:
        fate = Fate(world, seed)
        await world.worker("w1", slots=100)
        for step in range(STEPS):
            await fate.act()
            if step % 10 == 9:
                await world.keep()

                assert books(world.desk) == books(await replayed(world)), (seed, fate.story)
        _obeys(world, fate)
        await _let_everything_go(world, fate)

        assert {} == leftovers(world.desk), (seed, fate.story)
        assert world.journal.fault is None


async def replayed(world: World) -> Any:
    """Another desk over the same journal, which has also seen that nothing is due."""
    desk = open_desk(world.journal, world.clock, world.mint, Timers())
    position = world.journal.position
    while await Manager(desk).step():
        pass
    world.journal.listeners.pop()

    assert position == world.journal.position
    return desk


def _obeys(world: World, fate: Fate) -> None:
    for run_id in fate.runs:
        facts = world.facts(run_id)
        lost = [fact.identity for fact in facts if isinstance(fact, WorkspaceLost)]
        ended = [(fact.turn) for fact in facts if isinstance(fact, TurnCompleted | TurnFailed | TurnCut)]
        settled = [fact for fact in facts if isinstance(fact, RunSettled)]

        assert len(lost) == len(set(lost)), (run_id, fate.story)
        assert len(ended) == len(set(ended)), (run_id, fate.story)
        assert len(settled) <= 1, (run_id, fate.story)
        assert all(fact.cites for fact in settled), (run_id, fate.story)
        assert all(lost for fact in settled if fact.reason == "workspace_lost"), (run_id, fate.story)


async def _let_everything_go(world: World, fate: Fate) -> None:
    await fate.blind()
    for run_id in list(world.desk.live.cards):
        await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    await world.later(10)
    for workspace_id in list(world.desk.live.grounds.cards):
        await workspaces.release_workspace(world.desk, ADMIN, workspace_id)
        await see(world, workspace_id, saw("gone"))
    await world.keep()
    for _, worker_id in list(world.desk.live.workers):
        await workers.leave_worker(world.desk, ADMIN, worker_id)


@settings(max_examples=40)
@given(seed=st.integers(min_value=0, max_value=2**32))
@example(seed=44)
@pytest.mark.origin("C11", "C36")
def test_after_any_history_of_ground_its_laws_hold_and_a_replay_agrees(seed: int) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(lived(seed))
    finally:
        loop.close()


@pytest.mark.parametrize("after_all", [False, True])
async def test_a_report_whose_answer_was_lost_is_said_again_and_is_one_loss(
    each_world: World, *, after_all: bool
) -> None:
    run_id, fence = await each_world.held()
    workspace_id = await placed(each_world, run_id, fence)
    await attached(each_world, workspace_id)

    each_world.gate.fails(after_all=after_all)
    first = await each_world.refused_or(see(each_world, workspace_id, saw("gone", reason="NodeLost")))
    again = await see(each_world, workspace_id, saw("gone", reason="NodeLost"))

    assert isinstance(first, Unavailable) or first == again
    assert 1 == each_world.names(run_id).count("WorkspaceLost")
    assert "lost" == each_world.state(run_id)


async def test_a_service_that_died_after_the_append_tells_the_loss_to_whoever_asks_next(data_dir: Any) -> None:
    async with opened(data_dir) as world:
        run_id, fence = await world.held()
        workspace_id = await placed(world, run_id, fence, scope=SCOPE)
        other = await placed(world, run_id, fence, scope=SCOPE)
        await attached(world, workspace_id)
        await attached(world, other, "body-2")
        await see(world, workspace_id, saw("ended", reason="ProcessExited", exit_code=9))
    async with opened(data_dir) as world:
        assert 1 == await unknown_since_boot(world.desk)
        told = await world.beats("w1", run_id, fence)
        again = await see(world, workspace_id, saw("ended", reason="ProcessExited", exit_code=9))
        unknown = (await world.show(run_id))["evidence"]["unknown_since"]
        await world.later(60)

        assert ["workspace_lost"] == [each["kind"] for each in told["instructions"]]
        assert (True, True) == (again["lost"]["pending"], unknown is not None)
        assert 1 == world.names(run_id).count("WorkspaceLost")
        assert "lost" == world.state(run_id)


@pytest.mark.parametrize("jump_s", [-7200, 7200])
async def test_a_wall_clock_that_is_set_spends_no_budget_and_reaps_nothing(world: World, jump_s: float) -> None:
    run_id, fence = await world.held(ttl=3600)
    making, idle = await placed(world, run_id, fence), await placed(world, run_id, fence)
    await attached(world, idle)
    await turns.admit(world.desk, ADMIN, run_id, fence, None)
    world.clock.set_wall(jump_s)

    await world.keep()

    phases = {each["workspace_id"]: each["phase"] for each in (await world.show(run_id))["workspaces"]}
    assert {making: "provisioning", idle: "running"} == phases
    assert "TurnFailed" not in world.names(run_id)
