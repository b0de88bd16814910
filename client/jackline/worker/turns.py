"""A turn in the hands of a handler: admitted before its prompt is delivered, and ended once.

    turn = await run.turn(workspace_id)
    await turn.deliver(prompt)
    await turn.moved("busy")
    await turn.completed()

A harness that is just starting takes no prompt yet. `deliver` tries again while `prompt` raises `NotDelivered`, and
gives up only when the service ends the turn: its admission window has passed. A prompt that may have arrived is never
sent a second time. Whoever delivers by itself says `delivered`.

A turn waits without a deadline. Meanwhile the service may end it: the harness in its workspace has started again.
Whoever waits for an answer waits for `turn.over` as well; then `turn.ending` says how it ended, and what is said of it
afterwards is refused with `TurnOver`.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from jackline._async.turning import TurnNotice, TurnState
from jackline.errors import JacklineError
from jackline.models import Instruction
from jackline.retrying import Retry
from jackline.workspaces.models import TurnInfo

if TYPE_CHECKING:
    from jackline.worker.heldrun import HeldRun

ENDED = {"turn_failed": "failed", "turn_cut": "cut"}
DELIVERY: Final = Retry(first_s=0.25, cap_s=5.0)

Prompt = Callable[[], Awaitable[int | None]]


class NotDelivered(JacklineError):
    """Raised by a prompt that has certainly not arrived: it may be sent again."""


class Turn:
    """One turn of the attempt."""

    def __init__(self, run: "HeldRun", info: TurnInfo) -> None:
        self._run = run
        self.info = info
        self.over = asyncio.Event()
        self.ending: TurnInfo | None = None

    @property
    def number(self) -> int:
        """Which turn of the attempt."""
        return self.info.turn

    async def deliver(self, prompt: Prompt) -> None:
        """Deliver the prompt, and say so; tried again, ever more slowly, until the turn is over.

        `prompt` returns the incarnation that took it, None when it does not know. Raises `TurnOver` when the service
        ended the turn first, and whatever `prompt` raises but `NotDelivered`.
        """
        pauses = DELIVERY.pauses(self._run.client.transport.clock)
        incarnation: int | None = None
        while not self.over.is_set():
            try:
                incarnation = await prompt()
                break
            except NotDelivered:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(next(pauses)):
                        await self.over.wait()
        await self.delivered(incarnation)

    async def delivered(self, incarnation: int | None = None) -> None:
        """The prompt has been delivered, to what runs under this incarnation."""
        client, ref = self._run.client, self._run.ref
        await self._say(lambda _: client.turn_delivered(ref, self.number, incarnation=incarnation))

    async def moved(self, state: TurnState) -> None:
        """Say what the turn is doing: `waiting`, `busy`, or `answer_unread`."""
        await self._say(lambda _: self._run.client.turn_state(self._run.ref, self.number, state))

    async def completed(self) -> None:
        """The answer came and was taken."""
        await self._say(lambda _: self._run.client.complete_turn(self._run.ref, self.number))

    async def failed(self, code: str, message: str | None = None) -> None:
        """No answer will come."""
        await self._say(lambda _: self._run.client.fail_turn(self._run.ref, self.number, code, message))

    async def noticed(self, kind: TurnNotice) -> None:
        """Something about the turn that has to be said once."""
        await self._say(lambda _: self._run.client.notice_turn(self._run.ref, self.number, kind))

    def hear(self, instruction: Instruction) -> None:
        """The service has ended the turn."""
        data: dict[str, Any] = instruction.data if isinstance(instruction.data, dict) else {}
        state, code, message = ENDED[instruction.kind], data.get("code"), data.get("message")
        self._end(TurnInfo(self.number, self.info.incarnation, state, code, message))

    async def _say(self, speak: Any) -> None:
        self.info = await self._run.say("turn", speak)
        if self.info.state in ("completed", "failed", "cut"):
            self._end(self.info)

    def _end(self, ending: TurnInfo) -> None:
        if self.ending is None:
            self.ending = ending
            self.over.set()
