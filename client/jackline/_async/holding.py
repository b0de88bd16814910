"""Acting for runs under a fence: what a holder may ask.

Every call carries the fence; one that is no longer in force is refused with `FenceLost`, which names the fence that is.
"""

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from jackline._async.runs import run_path
from jackline._async.transport import Ask, AsyncTransport
from jackline.decode import decode, members
from jackline.models import EffectAnswer, LeaseRef, Run


class CloseOptions(TypedDict, total=False):
    """What a close may say beside its outcome."""

    result: Any
    error: Any
    retryable: bool


class Close(CloseOptions):
    """One of many closes."""

    run_id: str
    fence: int
    outcome: Literal["succeeded", "failed"]
    key: NotRequired[str]


StopReport = Literal["saved", "ignored"]


class Tool(TypedDict):
    """A tool call that starts or ends; while one is in flight, silence is not held against the run."""

    id: str
    name: str
    state: Literal["started", "ended"]


class AsyncHolding:
    """Guarded writes; `key` is the idempotency key, minted when it is left out."""

    transport: AsyncTransport

    async def write(self, lease: LeaseRef, verb: str, body: Any, key: str | None = None) -> Any:
        """The answer to one guarded write of this lease: the road that every method below takes."""
        ask = Ask("POST", run_path(lease.run_id, verb), {"fence": lease.fence, **body}, key=key)
        return (await self.transport.ask(ask)).body

    async def save_partial(self, lease: LeaseRef, partial: Any, *, key: str | None = None) -> None:
        """Replace the partial."""
        await self.write(lease, "partial", {"partial": partial}, key)

    async def progress(self, lease: LeaseRef, message: str, *, tool: Tool | None = None) -> None:
        """Say what is going on; counts as activity."""
        await self.write(lease, "progress", {"message": message, "tool": tool})

    async def send_output(self, lease: LeaseRef, seq: int, data: str, *, stream: str = "stdout") -> None:
        """Append one chunk of at most 256 KiB; a repeated `seq` is accepted once."""
        await self.write(lease, "output", {"seq": seq, "stream": stream, "data": data})

    async def park(
        self, lease: LeaseRef, question: Any, *, kind: str = "waiting_input", keep_lease: bool = False
    ) -> Run:
        """Put the run aside until somebody answers or resumes it; without `keep_lease` the lease ends here."""
        body = {"kind": kind, "question": question, "keep_lease": keep_lease}
        return decode(Run, await self.write(lease, "park", body))

    async def hand_back(self, lease: LeaseRef, *, key: str | None = None) -> Run:
        """Give the run back to its queue; nothing is counted."""
        return decode(Run, await self.write(lease, "hand-back", {}, key))

    async def close(
        self, lease: LeaseRef, outcome: Literal["succeeded", "failed"], **options: Unpack[CloseOptions]
    ) -> Run:
        """End the attempt with its outcome."""
        return decode(Run, await self.write(lease, "close", {"outcome": outcome, **options}))

    async def close_many(self, closes: Sequence[Close]) -> list[Any]:
        """One answer for each of up to 1,000 closes, in order, in one append."""
        reply = await self.transport.ask(Ask("POST", "/v1/closes", {"closes": list(closes)}))
        return members(reply.body, "closes")

    async def stop_report(self, lease: LeaseRef, report: StopReport, *, key: str | None = None) -> None:
        """Say once, under a revoked fence, what came of the order to stop."""
        await self.write(lease, "stop-report", {"report": report}, key)

    async def claim_effect(self, lease: LeaseRef, effect: str, payload: Any, *, key: str | None = None) -> EffectAnswer:
        """Record the intention to cause an effect; go on only when the answer is `claimed`."""
        return decode(EffectAnswer, await self._effect(lease, (effect,), {"payload": payload}, key))

    async def complete_effect(self, lease: LeaseRef, effect: str, outcome: Any, *, key: str | None = None) -> None:
        """The effect happened."""
        await self._effect(lease, (effect, "complete"), {"outcome": outcome}, key)

    async def fail_effect(self, lease: LeaseRef, effect: str, outcome: Any, *, key: str | None = None) -> None:
        """The effect certainly did not happen; it may be claimed again."""
        await self._effect(lease, (effect, "fail"), {"outcome": outcome}, key)

    async def reconcile_effect(
        self, whose: LeaseRef | str, effect: str, resolution: Literal["done", "not_done"], outcome: Any = None
    ) -> None:
        """Say what somebody found out about an ambiguous effect.

        `whose`: the lease of the run that is held, or, for its leader and for operators, the id of any run, at any
        time, also when it has ended.
        """
        await self._effect(whose, (effect, "reconcile"), {"resolution": resolution, "outcome": outcome}, None)

    async def _effect(self, whose: LeaseRef | str, where: tuple[str, ...], body: Any, key: str | None) -> Any:
        run_id, fence = (whose, {}) if isinstance(whose, str) else (whose.run_id, {"fence": whose.fence})
        ask = Ask("POST", run_path(run_id, "effects", *where), {**fence, **body}, key=key)
        return (await self.transport.ask(ask)).body
