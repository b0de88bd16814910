"""Replay: after any history the index that is folded from the journal is the one that was folded as it happened."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from commands import claims, ending, queues, showing, steering, submitting, workers
from commands.boot import open_desk
from commands.desk import Desk, Timers
from domain.handing import Park
from domain.lease import Held, Reserved
from domain.refusal import Refusal
from journal.errors import Unavailable
from policies.manager import RETRY_S, Manager
from tests.commands.auditor import Auditor
from tests.commands.books import books, leftovers
from tests.commands.clockwork import VirtualLoop
from tests.commands.test_effects import claim_effect
from tests.commands.world import ADMIN, World, closing, leader, opened, plain, text

WORKERS = ("w1", "w2", "w3")
STEPS = 60


class Chance:
    """Random acts of everybody, by a seed."""

    def __init__(self, world: World, seed: int, *, jumps: bool) -> None:
        self.world = world
        self.jumps = jumps
        self.random = random.Random(seed)
        self.runs: list[str] = []
        self.story: list[str] = []

    async def act(self, names: Sequence[str]) -> None:
        """One act of somebody; a refusal is an answer like any other, and so is a failure of storage."""
        name = self.random.choice(names)
        try:
            await ACTS[name](self)
            self.story.append(name)
        except (Refusal, Unavailable) as refusal:
            self.story.append(f"{name}: {refusal.code}")

    async def crowd(self) -> None:
        """Many at once, while the store is slow; now and then it fails, or somebody goes away in the middle."""
        names = [name for name in sorted(ACTS) if not name.startswith(("crowd", "wait"))]
        self.world.go(self.random.choice([0, 0, 5, 10]))
        async with self.world.gate.closed() as gate:
            doing = [self.world.start(self.act(names)) for _ in range(self.random.choice([2, 4]))]
            keeping = self.world.start(self.world.keep())
            await self.world.settle()
            if self.random.random() < 0.3:
                gate.fails(after_all=self.random.random() < 0.5)
            if self.random.random() < 0.3:
                self.random.choice(doing).cancel()
            await self.world.settle()
            doing += [self.world.start(self.act(names)) for _ in range(self.random.choice([0, 2, 4]))]
            await self.world.settle()
        await asyncio.gather(*doing, keeping, return_exceptions=True)
        await self.world.journal.drain()
        await self.world.settle()
        self.world.gate.fails(0)

    def run(self) -> str:
        """One of the runs."""
        return self.random.choice(self.runs) if self.runs else "none"

    def worker(self) -> str:
        """One of the workers."""
        return self.random.choice(WORKERS)

    def leased(self) -> tuple[str, int]:
        """A run that is held, or another, and the fence in force, or a wrong one."""
        held = [run_id for run_id in self.runs if self.world.desk.live.limits.holding(run_id) is not None]
        run_id = self.random.choice(held) if held and self.random.random() < 0.9 else self.run()
        lease = self.world.desk.journal.streams.load(f"lease-{run_id}")
        return run_id, int(lease.fence) - (self.random.random() < 0.1)

    async def submit(self) -> None:
        """Somebody wants a run."""
        choose = self.random.choice
        self.runs.append(
            await self.world.submit(
                queue=choose(["a", "b"]),
                labels=choose([{}, {}, {"gpu": "yes"}]),
                priority=choose([0, 0, 1]),
                concurrency_key=choose([None, "k", "l"]),
                run_after=choose([None, None, self.world.clock().after(20).wall]),
                leader_id="ada",
                attempts=choose([1, 2, 5]),
                ttl=choose([5, 10, 30]),
                hold=choose([None, None, 12]),
                judge=choose(["worker", "worker", "leader"]),
            )
        )

    async def register(self) -> None:
        """Workers say what they are."""
        for worker_id in WORKERS:
            if ("default", worker_id) not in self.world.desk.live.workers:
                await self.world.worker(worker_id, slots=2)
        labels = self.random.choice([{}, {"gpu": "yes"}])
        await self.world.worker(self.worker(), slots=self.random.choice([1, 3]), **labels)

    async def claim(self) -> None:
        """A worker asks for runs, or reserves them."""
        most, reserve = self.random.choice([1, 2, 3]), self.random.random() < 0.3
        await self.world.claim(self.worker(), "a", "b", most=most, reserve=reserve)

    async def claim_run(self) -> None:
        """A worker asks for one run."""
        await self.world.claim_run(self.run(), self.worker())

    async def token(self) -> None:
        """A reservation is bound or given back."""
        known = list(self.world.desk.live.reservations)
        token = self.random.choice(known) if known else "none"
        use = self.random.choice([claims.bind_token, claims.bind_token, claims.cancel_token])
        await use(self.world.desk, ADMIN, token)

    async def write(self) -> None:
        """A holder writes."""
        run_id, fence = self.leased()
        await self.world.output(run_id, fence, self.random.randrange(5), "x")
        await self.world.partial(run_id, fence, self.random.randrange(5))
        await claim_effect(self.world, (run_id, fence), self.random.choice("xyz"))

    async def beat(self) -> None:
        """A worker is heard with all that it holds."""
        desk, worker = self.world.desk, self.worker()
        held = desk.live.limits.held_by(("default", worker))
        await self.world.beat(worker, *((run_id, desk.standing(ADMIN, run_id).lease.fence) for run_id in held))

    async def close(self) -> None:
        """A holder closes."""
        error = self.random.choice([None, None, None, "ssh_timeout"])
        outcome: Any = self.random.choice(["succeeded", "failed"])
        await ending.close(self.world.desk, ADMIN, closing(*self.leased(), outcome, error=error))

    async def park(self) -> None:
        """A holder parks its run."""
        kind: Any = self.random.choice(["waiting_input", "waiting_peer", "waiting_takeover", "paused"])
        command = Park(kind=kind, keep_lease=self.random.random() < 0.5)
        await ending.park(self.world.desk, ADMIN, *self.leased(), command)

    async def hand_back(self) -> None:
        """A holder gives its run back."""
        await ending.hand_back(self.world.desk, ADMIN, *self.leased())

    async def steer(self) -> None:
        """The leader wants something."""
        desk, ada, run_id = self.world.desk, leader("ada"), self.run()
        steers: list[Callable[[], Awaitable[Any]]] = [
            lambda: steering.answer(desk, ada, run_id, text("yes")),
            lambda: steering.resume(desk, ada, run_id),
            lambda: steering.pause(desk, ada, run_id),
            lambda: steering.cancel(desk, ada, run_id, keep_workspaces=False),
            lambda: steering.verdict(desk, ada, run_id, "succeeded", text(None)),
            lambda: submitting.retry(desk, ada, run_id),
        ]
        await self.random.choice(steers)()

    async def limit(self) -> None:
        """An operator sets a queue's limits."""
        choose = self.random.choice
        await queues.configure_queue(self.world.desk, ADMIN, choose(["a", "b"]), choose([None, 1, 2]), choose([1, 2]))

    async def leave(self) -> None:
        """A worker drains, leaves, breaks off or is released."""
        leaving = self.random.choice(
            [workers.drain_worker, workers.leave_worker, workers.detached, workers.release_worker]
        )
        await leaving(self.world.desk, ADMIN, self.worker())

    async def wait(self) -> None:
        """Time passes; in some histories somebody sets the wall clock now and then."""
        if self.jumps and self.random.random() < 0.1:
            self.world.clock.set_wall(self.random.choice([-3600, -2, 3600]))
        await self.world.later(self.random.choice([0.5, 1, 5, 10, 30]))


ACTS: dict[str, Callable[[Chance], Awaitable[None]]] = {
    f"{name} {number}": getattr(Chance, name)
    for name, weight in {
        "submit": 3, "register": 2, "claim": 4, "claim_run": 2, "token": 2, "write": 3, "beat": 3, "close": 3,
        "park": 2, "hand_back": 1, "steer": 3, "limit": 1, "leave": 1, "wait": 4, "crowd": 2,
    }.items()
    for number in range(weight)
}  # fmt: skip


async def lived(seed: int, *, jumps: bool) -> None:
    """Live through one history, and compare what was folded with what is replayed again and again.

    A wall clock that is set counts as time that passed, or did not, for slices and quarantines after a replay: with
    jumps only what is live is looked at.
    """
    async with opened() as world:
        chance, auditor = Chance(world, seed, jumps=jumps), Auditor()
        world.journal.listeners.append(auditor.hear)
        for step in range(STEPS):
            await chance.act(sorted(ACTS))
            _agrees(world, chance)
            if step % 10 == 9 and not jumps:
                await world.later(RETRY_S)
                again = await replayed(world)

                assert books(world.desk) == books(again), (seed, chance.story)
        await brought_to_rest(world)

        assert {} == leftovers(world.desk), (seed, chance.story)
        assert [] == auditor.objections, chance.story
        assert world.journal.fault is None


async def replayed(world: World) -> Desk:
    """Another desk over the same journal, which has also seen that nothing is due."""
    desk = open_desk(world.journal, world.clock, world.mint, Timers())
    position = world.journal.position
    while await Manager(desk).step():
        pass
    world.journal.listeners.pop()

    assert position == world.journal.position
    return desk


def _agrees(world: World, chance: Chance) -> None:
    """The index agrees with the folded streams: who holds what, and what may be claimed."""
    desk, live = world.desk, world.desk.live
    for run_id in chance.runs:
        standing = desk.standing(ADMIN, run_id)
        holding, card = live.limits.holding(run_id), live.cards.get(run_id)
        held = isinstance(standing.lease, Held | Reserved)

        assert (holding is not None) == held, (chance.story, standing)
        assert holding is None or holding.worker == ("default", getattr(standing.lease, "worker", "")), chance.story
        assert (card is not None and card.ready) == (standing.state == "queued"), (chance.story, standing)


async def brought_to_rest(world: World) -> None:
    """Every run is ended, every worker leaves, and what is still due comes due."""
    for run_id in list(world.desk.live.cards):
        await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    await world.later(10)
    for _, worker_id in list(world.desk.live.workers):
        await workers.leave_worker(world.desk, ADMIN, worker_id)
    for _, worker_id in list(world.desk.live.fleet.quarantined):
        await workers.release_worker(world.desk, ADMIN, worker_id)


@settings(max_examples=40)
@given(seed=st.integers(min_value=0, max_value=2**32), jumps=st.booleans())
@example(seed=10463, jumps=False)
@example(seed=3703, jumps=False)  # a settlement by absence failed, and its second try waited for a younger run's grace
@pytest.mark.origin("H10", "D59", "D61", "D38")
def test_after_any_history_a_replay_agrees_and_at_rest_nothing_is_left(seed: int, *, jumps: bool) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(lived(seed, jumps=jumps))
    finally:
        loop.close()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.origin("H10", "B33", "D39")
async def test_a_service_that_is_started_again_and_again_goes_on_where_it_was(data_dir: Path, seed: int) -> None:
    ids, before = itertools.count(1), dict[str, Any]()
    chance: Chance | None = None
    for _ in range(4):
        async with opened(data_dir, ids) as world:
            if chance is None:
                chance = Chance(world, seed, jumps=False)
            else:
                chance.world = world
                assert before == _seen(world, chance)
            for _ in range(40):
                await chance.act(sorted(ACTS))
                _agrees(world, chance)
            await world.later(RETRY_S)
            before = _seen(world, chance)
            verdict = world.journal.verify()
        assert verdict.ok, verdict


def _seen(world: World, chance: Chance) -> dict[str, Any]:
    """What anybody can see of the runs, and what is kept about the present."""
    documents = {run_id: plain(showing.show_run(world.desk, ADMIN, run_id)) for run_id in chance.runs}
    return {
        "runs": {run_id: {**document, "evidence": None} for run_id, document in documents.items()},
        "books": books(world.desk),
    }
