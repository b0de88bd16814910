"""The reflector by itself: keepers that fail, lists that never end, and when everything is asked for again."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from jackline.clock import SYSTEM, Clock
from tests.waiting import eventually
from tests.watchers.fake_apiserver import FakeApiServer, Fault, fake_apiserver
from tests.watchers.world import BOUNDS, NAMESPACE, QUICK
from watchers.kubernetes.credentials import Access, Nobody
from watchers.kubernetes.reflector import EMPTY_PAGES_MAX, Pace, Reflector, Selection
from watchers.kubernetes.server import PODS, ApiServer

WISH = {"spec": {"containers": [{"name": "main"}]}}


class Notebook:
    """A keeper that writes down what it is told, and may fail at it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.failures = 0

    def _note(self, what: str) -> None:
        if self.failures > 0:
            self.failures -= 1
            msg = "the keeper's own fault"
            raise ValueError(msg)
        self.told.append(what)

    async def seen(self, found: Any) -> None:
        self._note(f"seen {found.metadata.name}")

    async def gone(self, last: Any, version: str) -> None:
        self._note(f"gone {last.metadata.name}")

    async def complete(self) -> None:
        self.told.append("complete")

    async def blind(self, why: str) -> None:
        self.told.append("blind")

    async def until(self, *told: str) -> None:
        """Wait until it was told this, in this order."""

        async def once() -> bool:
            rest = iter(self.told)
            return all(one in rest for one in told)

        await eventually(once, what=f"{told} in {self.told}")


class Bench:
    """A reflector on a fake server."""

    def __init__(self, api: FakeApiServer) -> None:
        self.api = api
        self.notebook = Notebook()
        self.server = ApiServer(Access(api.url, False, Nobody()), BOUNDS)
        self._running: asyncio.Task[None] | None = None

    def start(self, **pace: Any) -> Reflector:
        """Begin."""
        reflector = Reflector(self.server, Selection(PODS, NAMESPACE), self.notebook, SYSTEM, replace(QUICK, **pace))
        self._running = asyncio.create_task(reflector.run())
        return reflector

    async def pod(self, name: str) -> None:
        """A pod."""
        await self.api.write(lambda store: store.create("pods", NAMESPACE, {"metadata": {"name": name}, **WISH}))

    async def close(self) -> None:
        """End it."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self.server.close()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A fake server, and a reflector that has not begun."""
    async with fake_apiserver() as api:
        bench = Bench(api)
        yield bench
        await bench.close()


@pytest.mark.origin("C29")
async def test_a_keeper_that_fails_at_a_change_is_told_everything_again(bench: Bench) -> None:
    await bench.pod("a")
    bench.start()
    await bench.notebook.until("seen a", "complete")
    bench.notebook.failures = 1
    await bench.pod("b")

    await bench.notebook.until("complete", "blind", "seen a", "seen b", "complete")


@pytest.mark.origin("C29")
async def test_a_keeper_that_fails_at_an_end_is_told_it_again(bench: Bench) -> None:
    await bench.pod("a")
    bench.start()
    await bench.notebook.until("complete")
    bench.notebook.failures = 1
    await bench.api.write(lambda store: store.remove(("pods", NAMESPACE, "a")))
    await bench.notebook.until("blind", "complete")

    assert ["gone a"] == [one for one in bench.notebook.told if one.startswith("gone")]


async def test_nothing_is_complete_before_the_watch_is_open(bench: Bench) -> None:
    bench.api.fault = lambda asked: Fault(status=503) if asked.watches else None
    await bench.pod("a")
    bench.start()
    await bench.notebook.until("seen a", "blind", "seen a", "seen a")
    assert "complete" not in bench.notebook.told
    bench.api.fault = lambda asked: None

    await bench.notebook.until("blind", "complete")


async def test_blindness_is_told_once_while_it_lasts(bench: Bench) -> None:
    bench.api.fault = lambda asked: Fault(status=503)
    reflector = bench.start()

    async def tried() -> bool:
        return reflector.counts["blind"] >= 4

    await eventually(tried, what="it has tried four times")

    assert ["blind"] == bench.notebook.told


@pytest.mark.parametrize("more", [0, 1])
async def test_a_list_may_skip_so_many_pages_and_not_one_more(bench: Bench, more: int) -> None:
    await bench.pod("a")
    skipped = iter(range(EMPTY_PAGES_MAX + more))
    page = json.dumps({"metadata": {"resourceVersion": "1000", "continue": "more"}, "items": []}).encode()
    bench.api.fault = lambda asked: Fault(raw=page) if asked.lists and next(skipped, None) is not None else None
    bench.api._continuations["more"] = (1000, [bench.api.store.objects[("pods", NAMESPACE, "a")]])
    bench.start()
    await bench.notebook.until("seen a", "complete")

    assert (more == 1) == ("blind" in bench.notebook.told)


def test_streams_and_lists_of_many_observers_do_not_fall_together() -> None:
    pace = Pace()
    least, most = (Clock(lambda: 0.0, lambda chance=chance: chance, lambda: "id") for chance in (0.0, 0.999))  # type: ignore[misc]

    assert (20, 60) == (pace.watch_s(least), pace.watch_s(most))
    assert 480 == pace.relist_after_s(least)
    assert 719 < pace.relist_after_s(most) < 720
