"""A world from a seed: the same seed gives the same story, line for line."""

import asyncio
import random
import traceback
from collections.abc import Iterable, Sequence
from typing import TypeVar

from simulation.cast import Cast
from simulation.ending import calm, let_go
from simulation.laws import LawBroken
from simulation.world import World

T = TypeVar("T")

STEPS = 300
"""Steps of one world: long enough for several lives of the service and of most runs."""
AGAIN = (*("send_leader",) * 2, *("send_worker",) * 5, *("ground",) * 4)
"""What is done before each: somebody holds something again, and stands on it."""
ENDS = 4
"""How often, after that, something is let come to its end while everybody speaks."""


class Seeded:
    """Chooses from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        """One of these."""
        return self._random.choice(options)

    def chance(self, percent: int) -> bool:
        """Whether it happens, so many times in a hundred."""
        return self._random.random() * 100 < percent


class SeedFailed(AssertionError):
    """A law does not hold in this world; the message tells its story."""

    def __init__(self, seed: int, steps: int, broken: BaseException, story: Sequence[str]) -> None:
        told = "\n".join(story)
        why = str(broken) if isinstance(broken, LawBroken) else "".join(traceback.format_exception(broken))
        again = f"python -m simulation --seed {seed} --steps {steps}"
        super().__init__(f"{told}\n\n{why}\n\nseed {seed}; again: {again}")
        self.seed = seed
        self.broken = broken


def play(seed: int, steps: int = STEPS) -> World:
    """The world of this seed after so many steps and its end.

    Raises:
        SeedFailed: a law was broken, or something went wrong that must not.
    """
    world = World()
    try:
        asyncio.run(_play(world, seed, steps))
    except Exception as error:  # noqa: BLE001  (whatever ends a world before its time is a finding)
        broken = world.broken or error
        raise SeedFailed(seed, steps, broken, world.story) from broken
    finally:
        world.close()
    return world


def play_all(seeds: Iterable[int], steps: int = STEPS) -> int:
    """How many facts the worlds of these seeds have; raises as `play` does, for the first that fails."""
    return sum(play(seed, steps).history.position for seed in seeds)


async def _play(world: World, seed: int, steps: int) -> None:
    cast = Cast(world, Seeded(seed))
    try:
        await cast.begin()
        for _ in range(steps):
            await cast.step()
        for _ in range(ENDS):
            for step in AGAIN:
                await cast.step(step)
            await cast.step("at_its_end")
        await (calm(cast) if seed % 2 else let_go(cast))
    finally:
        await world.abandon()
