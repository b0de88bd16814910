"""A run in the hands of a Python handler.

Everything that a handler says goes out in the order in which it was said, one thing at a time, each until it is
heard; `output` and `progress` only queue it, everything else returns when the service has answered. When the lease is
lost, every call raises `LeaseLost`, and the handler itself is cancelled.

A question is asked by `park`. Without keeping the lease it does not return: the handler is unwound (`Parked`), and
the run comes back, to this worker or another, once there is an answer; then the same question returns it. With
`keep_lease` it waits here. An effect is caused at most once over all attempts: see `effect`.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from jackline._async.client import AsyncClient
from jackline.errors import FenceLost, JacklineError
from jackline.models import Answer, Claim, Instruction, LeaseRef
from jackline.worker.held import HeldLease, LeaseLost, Loss
from jackline.worker.log import Log
from jackline.worker.persist import until_answered
from jackline.worker.standing import HeldWorkspace, Kind, Wish, standing_on
from jackline.worker.turns import ENDED, Turn

OUTPUT_CHARACTERS = 40_000  # per chunk: at most 240 KiB of JSON even when every character takes six bytes
QUEUED_MAX = 1000  # things said but not heard; beyond that, saying waits


class WorkspaceOptions(TypedDict, total=False):
    """What may be said of a workspace: who watches it, below which place it is made, whether it outlives its block."""

    scope: str | None
    root: Path | None
    keep: bool


class Parked(BaseException):
    """Unwinds a handler whose run has been parked; not an error, and not to be caught."""


class EffectAmbiguous(JacklineError):
    """Somebody started this effect and nobody knows what came of it: find out, then reconcile."""


class EffectMismatch(JacklineError):
    """The same effect key was used with another payload."""


class Partial:
    """What the attempts of this run have produced so far."""

    def __init__(self, run: "HeldRun", value: Any) -> None:
        self._run = run
        self._value = value

    def get(self) -> Any:
        """The partial: what this attempt saved last, else what its predecessor left, else None."""
        return self._value

    async def save(self, value: Any) -> None:
        """Replace the partial; returns when the service has it."""
        await self._run.say("partial", lambda key: self._run.client.save_partial(self._run.ref, value, key=key))
        self._value = value


@dataclass(slots=True)
class EffectHandle:
    """One effect under way: set `outcome` to what came of it; `existing` means that it was done before."""

    key: str
    existing: bool
    outcome: Any = None
    not_done: Any = None
    failed: bool = False

    def fail(self, outcome: Any = None) -> None:
        """The effect certainly did not happen; it may be tried again by anybody."""
        self.failed, self.not_done = True, outcome


class HeldRun:
    """What a handler is given."""

    def __init__(self, client: AsyncClient, worker_id: str, claim: Claim, lease: HeldLease, log: Log) -> None:
        self.client = client
        self.worker_id = worker_id
        self.ref: LeaseRef = lease.ref
        self.attempt = claim.attempt
        self.payload = claim.payload
        self.answers: list[Answer] = list(claim.answers)
        self.partial = Partial(self, claim.partial)
        self._lease = lease
        self._log = log
        self._seq = 0
        self._asked: dict[str, int] = {}
        self.turns: dict[int, Turn] = {}
        self.grounds: dict[str, HeldWorkspace] = {}
        self._told: asyncio.Queue[Instruction] = asyncio.Queue(QUEUED_MAX)
        self._queue: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(QUEUED_MAX)

    @property
    def run_id(self) -> str:
        """Which run."""
        return self.ref.run_id

    @property
    def fence(self) -> int:
        """The fence that every write carries."""
        return self.ref.fence

    @property
    def lost(self) -> bool:
        """Whether the lease has ended; from then on every call raises `LeaseLost`."""
        return self._lease.loss is not None

    def hear(self, instruction: Instruction) -> None:
        """Hand on what the service says beside orders to end: about turns, and about what the run stands on."""
        data = instruction.data if isinstance(instruction.data, dict) else {}
        turn, ground = self.turns.get(data.get("turn", -1)), self.grounds.get(data.get("workspace_id", ""))
        if instruction.kind in ENDED and turn is not None:
            turn.hear(instruction)
        if instruction.kind == "workspace_lost" and ground is not None:
            ground.hear(instruction)
        with contextlib.suppress(asyncio.QueueFull):
            self._told.put_nowait(instruction)

    async def told(self) -> AsyncIterator[Instruction]:
        """What the service says beside orders to end, as it comes: `workspace_lost`, `turn_failed` and the like."""
        while True:
            yield await self._told.get()

    async def turn(self, workspace_id: str | None = None) -> Turn:
        """A new turn, to be delivered within the admission window; see `jackline.worker.turns`."""
        info = await self.say("turn", lambda key: self.client.admit_turn(self.ref, workspace_id, key=key))
        turn = self.turns[info.turn] = Turn(self, info)
        return turn

    def workspace(
        self, kind: Kind = "external", spec: Any = None, **more: Unpack[WorkspaceOptions]
    ) -> AbstractAsyncContextManager[HeldWorkspace]:
        """Something for the run to stand on inside a block of code; see `jackline.worker.standing`."""
        return standing_on(self, Wish(kind, spec, **more), self._log)

    async def deliver(self) -> None:
        """Deliver what is said, in order, until cancelled."""
        while True:
            say = await self._queue.get()
            try:
                await say()
            finally:
                self._queue.task_done()

    async def heard(self) -> None:
        """Wait until everything that was said has been heard, or the lease is lost."""
        await self._queue.join()

    async def say(self, what: str, speak: Callable[[str], Awaitable[Any]]) -> Any:
        """Say something in its turn and return the answer; `speak` is given the idempotency key to use."""
        self._lease.still_held()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._queue.put(lambda: self._speak(what, speak, answer))
        return await answer

    async def output(self, text: str, *, stream: str = "stdout") -> None:
        """Append to the run's output; returns when it is queued."""
        for start in range(0, len(text), OUTPUT_CHARACTERS):
            self._seq += 1
            await self._queue_output(self._seq, text[start : start + OUTPUT_CHARACTERS], stream)

    async def progress(self, message: str) -> None:
        """Say what is going on; returns when it is queued."""
        self._lease.still_held()
        nobody: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._queue.put(
            lambda: self._speak("progress", lambda _: self.client.progress(self.ref, message), nobody)
        )

    async def park(self, question: Any, *, kind: str = "waiting_input", keep_lease: bool = False) -> Any:
        """The answer to `question`: given earlier, or waited for here (`keep_lease`); else the run is put aside."""
        given = self._given(question)
        if given is not None:
            return given.answer
        await self.say("park", lambda _: self.client.park(self.ref, question, kind=kind, keep_lease=keep_lease))
        if not keep_lease:
            raise Parked
        return await self._wait_for_answer(question)

    @asynccontextmanager
    async def effect(self, key: str, payload: Any) -> AsyncIterator[EffectHandle]:
        """Cause a side effect outside the run, at most once over all attempts.

        Inside, do it unless `handle.existing`, and set `handle.outcome`. An exception inside leaves the effect
        intended, hence ambiguous once the attempt ends, because nobody knows how far it came; call `handle.fail()`
        when it certainly did not happen. Raises `EffectAmbiguous` and `EffectMismatch`.
        """
        told = await self.say("effect", lambda command: self.client.claim_effect(self.ref, key, payload, key=command))
        if told.answer == "ambiguous":
            msg = f"effect {key!r} of run {self.run_id} was started and nobody knows what came of it"
            raise EffectAmbiguous(msg)
        if told.answer == "mismatch":
            msg = f"effect {key!r} of run {self.run_id} was recorded with another payload"
            raise EffectMismatch(msg)
        handle = EffectHandle(key, told.answer == "existing", told.outcome)
        try:
            yield handle
        except BaseException:
            if handle.failed and not handle.existing:
                await self._resolve(handle)
            raise
        if not handle.existing:
            await self._resolve(handle)

    async def once(self, key: str, payload: Any, cause: Callable[[], Awaitable[Any]]) -> Any:
        """The outcome of an effect: `cause` is awaited only if no attempt has caused it before."""
        async with self.effect(key, payload) as handle:
            if not handle.existing:
                handle.outcome = await cause()
        return handle.outcome

    async def reconcile(self, key: str, *, done: bool, outcome: Any = None) -> None:
        """Say what was found out about an ambiguous effect; one that was not done may be caused again."""
        found: Literal["done", "not_done"] = "done" if done else "not_done"
        await self.say("reconcile", lambda _: self.client.reconcile_effect(self.ref, key, found, outcome))

    async def _resolve(self, handle: EffectHandle) -> None:
        if handle.failed:
            await self.say(
                "effect", lambda key: self.client.fail_effect(self.ref, handle.key, handle.not_done, key=key)
            )
        else:
            await self.say(
                "effect", lambda key: self.client.complete_effect(self.ref, handle.key, handle.outcome, key=key)
            )

    async def _queue_output(self, seq: int, text: str, stream: str) -> None:
        self._lease.still_held()
        nobody: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._queue.put(
            lambda: self._speak("output", lambda _: self.client.send_output(self.ref, seq, text, stream=stream), nobody)
        )

    async def _speak(self, what: str, speak: Callable[[str], Awaitable[Any]], answer: asyncio.Future[Any]) -> None:
        """Say one thing until it is heard, and settle its answer; nothing is said under a lost lease."""
        key = self.client.transport.clock.new_id()
        try:
            self._lease.still_held()
            got = await until_answered(lambda: speak(key), self.client.transport.clock)
            if not answer.done():
                answer.set_result(got)
        except FenceLost as refusal:
            self._lease.lose_to(refusal)
            _settle(answer, LeaseLost(self.ref, self._lease.loss or Loss("lost", refusal.reason)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to whoever is waiting for the answer
            self._log("said_in_vain", run_id=self.run_id, what=what, error=str(error))
            _settle(answer, error)

    def _given(self, question: Any) -> Answer | None:
        """The answer that this very question got, counting how often this attempt has asked it."""
        canonical = json.dumps(question, sort_keys=True)
        asked = self._asked[canonical] = self._asked.get(canonical, 0) + 1
        same = [one for one in self.answers if json.dumps(one.question, sort_keys=True) == canonical]
        return same[asked - 1] if len(same) >= asked else None

    async def _wait_for_answer(self, question: Any) -> Any:
        known = len(self.answers)
        async for _ in self.client.follow(self.run_id):
            self._lease.still_held()
            run = await self.client.run(self.run_id)
            if len(run.answers) > known:
                self.answers = run.answers
                return run.answers[-1].answer
        raise Parked


def _settle(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # read once, so that an answer that nobody waits for is not reported as forgotten
