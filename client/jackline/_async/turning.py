"""Turns: exchanges inside an attempt, admitted before they are delivered, and ended once.

A turn is held to the incarnation of its workspace. When the harness inside has started again since, a waiting turn is
failed and a busy one cut by the service; whoever comes second with an end is refused with `TurnOver`.
"""

from typing import Any, Literal

from jackline._async.runs import run_path
from jackline._async.transport import Ask, AsyncTransport
from jackline.decode import decode
from jackline.models import LeaseRef
from jackline.workspaces.models import TurnInfo

TurnState = Literal["waiting", "busy", "answer_unread"]
TurnNotice = Literal["conversation_new", "memory_limit"]


class AsyncTurning:
    """Guarded writes about turns."""

    transport: AsyncTransport

    async def admit_turn(self, lease: LeaseRef, workspace_id: str | None = None, *, key: str | None = None) -> TurnInfo:
        """A new turn, to be delivered within the admission window; without a workspace nobody watches it."""
        return await self._turn(lease, (), {"workspace_id": workspace_id}, key)

    async def turn_delivered(self, lease: LeaseRef, turn: int, *, incarnation: int | None = None) -> TurnInfo:
        """The prompt has been delivered, to what runs under this incarnation: from now on the turn waits."""
        body = {} if incarnation is None else {"incarnation": incarnation}
        return await self._turn(lease, (str(turn), "delivered"), body)

    async def turn_state(self, lease: LeaseRef, turn: int, state: TurnState) -> TurnInfo:
        """What the turn is doing."""
        return await self._turn(lease, (str(turn), "state"), {"state": state})

    async def complete_turn(self, lease: LeaseRef, turn: int) -> TurnInfo:
        """The answer came and was taken."""
        return await self._turn(lease, (str(turn), "complete"), {})

    async def fail_turn(self, lease: LeaseRef, turn: int, code: str, message: str | None = None) -> TurnInfo:
        """No answer will come."""
        return await self._turn(lease, (str(turn), "fail"), {"code": code, "message": message})

    async def notice_turn(self, lease: LeaseRef, turn: int, kind: TurnNotice) -> TurnInfo:
        """Something about the turn that has to be said once."""
        return await self._turn(lease, (str(turn), "notice"), {"kind": kind})

    async def _turn(self, lease: LeaseRef, where: tuple[str, ...], body: Any, key: str | None = None) -> TurnInfo:
        ask = Ask("POST", run_path(lease.run_id, "turns", *where), {"fence": lease.fence, **body}, key=key)
        return decode(TurnInfo, (await self.transport.ask(ask)).body)
