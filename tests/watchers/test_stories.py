"""Random stories: pods live and end, servers and observers fail, and in the end everybody was told the truth, once."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.watchers.fake_apiserver import Fault
from tests.watchers.world import FakeWorld, container, exited, fake_world
from watchers.kubernetes.shapes import MANAGED_BY

NAMES = ("a", "b", "c")
STORIES = 25
FAULTS = {
    "503": Fault(status=503),
    "expired": Fault(expired=True),
    "garbage": Fault(raw=b'{"type": \n'),
    "cut": Fault(cut_after=300),
    "twice": Fault(twice=True),
    "refuse": Fault(refuse=True),
}
Act = Callable[[FakeWorld, str], Awaitable[Any]]


async def make(world: FakeWorld, name: str) -> None:
    """A pod under that name, if there is none; a body only for a workspace that never had one."""
    if await world.hands.find("pods", name) is None:
        await world.pod(name, standing=f"w-{name}" not in world.ledger.grounds)


async def restart(world: FakeWorld, name: str) -> None:
    """The harness starts once more."""
    found = await world.hands.find("pods", name)
    if found is not None and found["status"]["phase"] == "Running":
        count = found["status"]["containerStatuses"][0]["restartCount"] + 1
        await world.status(name, containerStatuses=container(count, last=exited(1)))


async def fail(world: FakeWorld, name: str) -> None:
    """Something goes wrong with the server, until it is well again."""
    world.api.fault = lambda asked: FAULTS[name]
    world.api.cut()


async def heal(world: FakeWorld, _name: str) -> None:
    """The server is well again."""
    world.api.fault = lambda asked: None


async def succeed_observer(world: FakeWorld, _name: str) -> None:
    """The observer is killed, and another begins."""
    await world.kill()
    await world.begin()


ACTS: dict[str, Act] = {
    "make": make,
    "restart": restart,
    "evict": lambda world, name: world.status(name, phase="Failed", reason="Evicted"),
    "delete": lambda world, name: world.hands.delete("pods", name),
    "force": lambda world, name: world.hands.delete("pods", name, force=True),
    "unlabel": lambda world, name: world.hands.patch("pods", name, {"metadata": {"labels": {MANAGED_BY: None}}}),
    "compact": lambda world, _name: world.api.write(lambda store: store.compact()),
    "observer": succeed_observer,
    "heal": heal,
}
STEPS = st.one_of(
    st.tuples(st.sampled_from(sorted(ACTS)), st.sampled_from(NAMES)),
    st.tuples(st.just("fail"), st.sampled_from(sorted(FAULTS))),
)


@pytest.mark.origin("C3", "C5", "C9", "C11", "R12", "R13", "R14")
@settings(max_examples=STORIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=3, max_size=14))
def test_after_any_story_every_end_is_told_once_and_nothing_else_is_lost(story: list[tuple[str, str]]) -> None:
    asyncio.run(_played(story))


async def _played(story: list[tuple[str, str]]) -> None:
    async with fake_world() as world:
        for name in NAMES:
            await make(world, name)
        await world.begin()
        for act, name in story:
            with suppress(AssertionError, httpx.HTTPError):  # what cannot be done any more is not done
                await (fail if act == "fail" else ACTS[act])(world, name)
            await asyncio.sleep(0)
        await heal(world, "")
        stated = world.ledger.synced
        await world.until(lambda: world.ledger.synced > stated or _all_told(world), "the scope is stated")
        for name in NAMES:
            await _told_the_truth(world, name)


def _all_told(world: FakeWorld) -> bool:
    return world.observing is not None and world.observing.view.in_sight and world.ledger.synced > 0


async def _told_the_truth(world: FakeWorld, name: str) -> None:
    ground, found = world.ground(name), await world.hands.find("pods", name)
    identity = None if found is None else f"pod:{found['metadata']['uid']}"
    stands = found is not None and identity == ground.identity and found["status"]["phase"] == "Running"
    phase = "running" if stands else "lost"
    await world.until(lambda: ground.phase == phase, f"{name} is {phase}")
    if stands and found is not None:
        count = found["status"]["containerStatuses"][0]["restartCount"]
        await world.until(lambda: ground.incarnation == count, f"{name} has incarnation {count}")
        await world.until(lambda: not ground.unknown, f"{name} is known")
    assert ground.losses == (not stands)
