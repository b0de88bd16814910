"""Acting for runs under a fence: what a holder may ask.

Every call carries the fence; one that is no longer in force is refused with `FenceLost`, which names the fence that is.
"""

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from jackline._sync.runs import run_path
from jackline._sync.transport import Ask, Transport
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


class Holding:
    """Guarded writes; `key` is the idempotency key, minted when it is left out."""

    transport: Transport

    def write(self, lease: LeaseRef, verb: str, body: Any, key: str | None = None) -> Any:
        """The answer to one guarded write of this lease: the road that every method below takes."""
        ask = Ask("POST", run_path(lease.run_id, verb), {"fence": lease.fence, **body}, key=key)
        return (self.transport.ask(ask)).body

    def save_partial(self, lease: LeaseRef, partial: Any, *, key: str | None = None) -> None:
        """Replace the partial."""
        self.write(lease, "partial", {"partial": partial}, key)

    def progress(self, lease: LeaseRef, message: str, *, tool: Tool | None = None) -> None:
        """Say what is going on; counts as activity."""
        self.write(lease, "progress", {"message": message, "tool": tool})

    def send_output(self, lease: LeaseRef, seq: int, data: str, *, stream: str = "stdout") -> None:
        """Append one chunk of at most 256 KiB; a repeated `seq` is accepted once."""
        self.write(lease, "output", {"seq": seq, "stream": stream, "data": data})

    def park(self, lease: LeaseRef, question: Any, *, kind: str = "waiting_input", keep_lease: bool = False) -> Run:
        """Put the run aside until somebody answers or resumes it; without `keep_lease` the lease ends here."""
        body = {"kind": kind, "question": question, "keep_lease": keep_lease}
        return decode(Run, self.write(lease, "park", body))

    def hand_back(self, lease: LeaseRef, *, key: str | None = None) -> Run:
        """Give the run back to its queue; nothing is counted."""
        return decode(Run, self.write(lease, "hand-back", {}, key))

    def close(self, lease: LeaseRef, outcome: Literal["succeeded", "failed"], **options: Unpack[CloseOptions]) -> Run:
        """End the attempt with its outcome."""
        return decode(Run, self.write(lease, "close", {"outcome": outcome, **options}))

    def close_many(self, closes: Sequence[Close]) -> list[Any]:
        """One answer for each of up to 1,000 closes, in order, in one append."""
        reply = self.transport.ask(Ask("POST", "/v1/closes", {"closes": list(closes)}))
        return members(reply.body, "closes")

    def stop_report(self, lease: LeaseRef, report: StopReport, *, key: str | None = None) -> None:
        """Say once, under a revoked fence, what came of the order to stop."""
        self.write(lease, "stop-report", {"report": report}, key)

    def claim_effect(self, lease: LeaseRef, effect: str, payload: Any, *, key: str | None = None) -> EffectAnswer:
        """Record the intention to cause an effect; go on only when the answer is `claimed`."""
        return decode(EffectAnswer, self._effect(lease, (effect,), {"payload": payload}, key))

    def complete_effect(self, lease: LeaseRef, effect: str, outcome: Any, *, key: str | None = None) -> None:
        """The effect happened."""
        self._effect(lease, (effect, "complete"), {"outcome": outcome}, key)

    def fail_effect(self, lease: LeaseRef, effect: str, outcome: Any, *, key: str | None = None) -> None:
        """The effect certainly did not happen; it may be claimed again."""
        self._effect(lease, (effect, "fail"), {"outcome": outcome}, key)

    def reconcile_effect(
        self, whose: LeaseRef | str, effect: str, resolution: Literal["done", "not_done"], outcome: Any = None
    ) -> None:
        """Say what somebody found out about an ambiguous effect.

        `whose`: the lease of the run that is held, or, for its leader and for operators, the id of any run, at any
        time, also when it has ended.
        """
        self._effect(whose, (effect, "reconcile"), {"resolution": resolution, "outcome": outcome}, None)

    def _effect(self, whose: LeaseRef | str, where: tuple[str, ...], body: Any, key: str | None) -> Any:
        run_id, fence = (whose, {}) if isinstance(whose, str) else (whose.run_id, {"fence": whose.fence})
        ask = Ask("POST", run_path(run_id, "effects", *where), {**fence, **body}, key=key)
        return (self.transport.ask(ask)).body
