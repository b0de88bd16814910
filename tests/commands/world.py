"""One service without its face: a journal, a desk and its process manager, on a clock that is moved by hand.

    run = await world.submit(ttl=10)
    claim = await world.claimed("w1")
    world.go(10)                      # time passes, nobody acts
    await world.keep()                # the promises that are due are kept
    assert (await world.show(run))["state"] == "queued"

Everything is real but the clock. ``gate`` holds appends back or fails them; ``reopened`` is the same journal after the
process has died.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from commands import claims, ending, holding, showing, submitting, workers
from commands.boot import open_desk
from commands.desk import Caller, Desk, Timers
from commands.submitting import Wish
from domain.closing import Close
from domain.submission import Policy, Submit
from domain.values import NULL, Fact, Json, to_json
from journal.commit import Journal
from journal.opening import open_journal
from policies.manager import Manager
from tests.commands.clockwork import Clock, VirtualLoop
from tests.commands.gate import Gate

T = TypeVar("T")
Shown = dict[str, Any]

ADMIN = Caller(principal="admin", role="admin")
STEPS_MAX = 1_000


def leader(*leader_ids: str) -> Caller:
    """A principal that may be these leaders."""
    return Caller(principal=f"key-of-{'-'.join(leader_ids)}", role="leader", leaders=frozenset(leader_ids))


def worker_key(*worker_ids: str) -> Caller:
    """A principal that may be these workers."""
    return Caller(principal=f"key-of-{'-'.join(worker_ids)}", role="worker", workers=frozenset(worker_ids))


def command(command_id: str, caller: Caller = ADMIN, digest: str = "body") -> Caller:
    """The same caller with an idempotency key and the digest of what it sent."""
    return msgspec.structs.replace(caller, command_id=command_id, request_digest=digest)


def text(value: object) -> Json:
    """A JSON value as it travels."""
    return NULL if value is None else to_json(value)


def plain(value: Any) -> Any:
    """An answer as its caller sees it: through JSON and back."""
    return msgspec.json.decode(msgspec.json.encode(value))


class World:
    """A desk, what it stands on, and the acts of everybody around it."""

    def __init__(self, journal: Journal, clock: Clock, ids: Iterable[int], timers: Timers) -> None:
        self.journal = journal
        self.clock = clock
        self._ids = iter(ids)
        self.desk: Desk = open_desk(journal, clock, self.mint, timers)
        self.manager = Manager(self.desk)
        self.gate = Gate(journal)
        self.running: set[asyncio.Future[Any]] = set()

    def mint(self) -> str:
        """A fresh id."""
        return f"{next(self._ids):032x}"

    # Time

    def go(self, seconds: float) -> None:
        """Time passes, and nobody acts."""
        self.clock.go(seconds)

    async def keep(self) -> int:
        """Keep the promises that are due; how many things fell due."""
        total = 0
        for _ in range(STEPS_MAX):
            found = await self.manager.step()
            if not found:
                return total
            total += found
        message = "there is always something due"
        raise AssertionError(message)

    async def later(self, seconds: float) -> None:
        """Time passes, and what is due is done."""
        self.go(seconds)
        await self.keep()

    # What is asked

    async def submit(self, *, caller: Caller = ADMIN, key: str | None = None, **wish: Any) -> str:
        """The id of a new run; ``ttl``, ``attempts``, ``hold`` are its policy, the rest its submission."""
        done = await submitting.submit(self.desk, caller, wished(key=key, **wish))
        return str(done.answer["run_id"])

    async def worker(self, worker_id: str = "w1", *, slots: int = 1, **labels: str) -> str:
        """A registered worker."""
        await workers.register_worker(self.desk, ADMIN, worker_id, workers.Ability(labels, slots))
        return worker_id

    async def claim(self, worker_id: str = "w1", *queues: str, caller: Caller = ADMIN, **ask: Any) -> list[Shown]:
        """What the worker is granted by queue."""
        asked = claims.Ask(worker_id=worker_id, queues=queues or ("default",), **ask)
        done = await claims.claim(self.desk, caller, asked)
        return list(plain(done.answer["claims"]))

    async def claimed(self, worker_id: str = "w1", *queues: str, **ask: Any) -> Shown:
        """The one run that the worker is granted by queue."""
        granted = await self.claim(worker_id, *queues, **ask)
        assert len(granted) == 1, granted
        return granted[0]

    async def claim_run(self, run_id: str, worker_id: str = "w1", caller: Caller = ADMIN) -> Shown:
        """What the worker is granted by id."""
        return dict(plain((await claims.claim_run(self.desk, caller, run_id, worker_id)).answer))

    async def held(self, worker_id: str = "w1", **wish: Any) -> tuple[str, int]:
        """A new run that the worker holds, and its fence; registers the worker when it is unknown."""
        run_id = await self.submit(**wish)
        if ("default", worker_id) not in self.desk.live.workers:
            await self.worker(worker_id, slots=100)
        return run_id, (await self.claim_run(run_id, worker_id))["fence"]

    async def beat(self, worker_id: str, *leases: tuple[str, int], caller: Caller = ADMIN) -> list[Shown]:
        """What a heartbeat is answered, lease by lease."""
        listed = [holding.Lessee(run_id, fence) for run_id, fence in leases]
        return list(plain(await holding.heartbeat(self.desk, caller, worker_id, listed)))

    async def beats(self, worker_id: str, run_id: str, fence: int) -> Shown:
        """What a heartbeat with one lease is answered."""
        (answer,) = await self.beat(worker_id, (run_id, fence))
        return answer

    async def close(
        self, run_id: str, fence: int | None, outcome: Literal["succeeded", "failed"] = "succeeded", **close: Any
    ) -> Shown:
        """The run after its close."""
        caller = close.pop("caller", ADMIN)
        return dict(plain((await ending.close(self.desk, caller, closing(run_id, fence, outcome, **close))).answer))

    async def output(self, run_id: str, fence: int | None, seq: int, data: str, caller: Caller = ADMIN) -> None:
        """A piece of output on ``stdout``."""
        await holding.write_output(self.desk, caller, run_id, fence, holding.Chunk(seq=seq, stream="stdout", data=data))

    async def partial(self, run_id: str, fence: int | None, value: object, caller: Caller = ADMIN) -> None:
        """A partial is saved."""
        await holding.save_partial(self.desk, caller, run_id, fence, text(value))

    # What is seen

    async def show(self, run_id: str) -> Shown:
        """The run as anybody is shown it."""
        return dict(plain(showing.show_run(self.desk, ADMIN, run_id)))

    def state(self, run_id: str) -> str:
        """The state of the run in one word."""
        return self.desk.standing(ADMIN, run_id).state

    def facts(self, run_id: str | None = None) -> list[Fact]:
        """What is recorded, about one run or at all."""
        store = self.journal.store
        found = store.facts_after(0, 1_000_000) if run_id is None else store.facts_of(run_id, 0, 1_000_000)
        return [recorded.fact for recorded in found]

    def names(self, run_id: str | None = None, after: int = 0) -> list[str]:
        """The kinds of the facts that are recorded, in order."""
        return [type(fact).__name__ for fact in self.facts(run_id)[after:]]

    # Doing several things at once

    def start(self, doing: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin something that is waited for later."""
        running = asyncio.get_running_loop().create_task(doing)
        self.running.add(running)
        running.add_done_callback(self.running.discard)
        return running

    async def passes(self, seconds: float) -> None:
        """Let that much time pass by itself, while whoever runs beside this test acts in it."""
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        loop.call_later(seconds, over.set_result, None)
        await over

    async def settle(self) -> None:
        """Let everybody go on who can without waiting for the store or for time."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def refused_or(self, doing: Awaitable[T]) -> T | Exception:
        """The answer, or whatever was raised instead."""
        try:
            return await doing
        except Exception as error:  # noqa: BLE001  (whatever it is, the test looks at it)
            return error


SHORT = {"ttl": "lease_ttl_s", "attempts": "max_attempts", "hold": "max_hold_s", "judge": "verdict_by"}


def wished(*, key: str | None = None, payload: object = None, **wish: Any) -> Wish:
    """A submission; what belongs to its policy may have a short name."""
    named = {SHORT.get(name, name): value for name, value in wish.items()}
    terms = {name: named.pop(name) for name in list(named) if name in Policy.__struct_fields__}
    return Wish(command=Submit(payload=text(payload), policy=Policy(**terms), **named), key=key)


def closing(
    run_id: str, fence: int | None, outcome: Literal["succeeded", "failed"] = "succeeded", **close: Any
) -> ending.CloseOf:
    """A close of one run."""
    result, error = text(close.pop("result", None)), text(close.pop("error", None))
    return ending.CloseOf(run_id=run_id, fence=fence, close=Close(outcome=outcome, result=result, error=error, **close))


@asynccontextmanager
async def opened(
    data_dir: Path | None = None, ids: Iterable[int] | None = None, timers: Timers | None = None
) -> AsyncIterator[World]:
    """A world on a journal in a directory, or in memory; its own end is that of the process."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "the conftest beside this test gives it the loop"
    ids = itertools.count(1) if ids is None else ids
    numbered = iter(ids)
    journal = await open_journal(data_dir, loop.clock, mint=lambda: f"{next(numbered):032x}")
    world = World(journal, loop.clock, numbered, timers or Timers())
    question = _at_work(world)
    loop.at_work.append(question)
    try:
        yield world
    finally:
        world.gate.opens()
        await _ended(list(world.running))
        await journal.close()
        loop.at_work.remove(question)


def _at_work(world: World) -> Any:
    return lambda: world.journal.kind == "sqlite" and world.journal.queued > 0 and not world.gate.shut


async def _ended(running: Sequence["asyncio.Future[Any]"]) -> None:
    for doing in running:
        doing.cancel()
    await asyncio.gather(*running, return_exceptions=True)
