"""Messages to the service: what somebody asks, so that the network can deliver it late, twice, or beside others.

A message carries its caller with a command id of its own, so a second delivery is the same command. `sent` makes the
call; what comes back is a `Reply`: an answer, a refusal by its code, or *unknown*, which tells nothing.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from commands.desk import Caller, Desk
from domain.refusal import Refusal
from journal.commit import Done
from journal.errors import Unavailable


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One command of somebody; ``right`` is the (run, fence, worker) that a guarded write claims to have."""

    caller: Caller
    text: str
    send: Callable[[Desk, Caller], Awaitable[Any]]
    right: tuple[str, int, str] | None = None
    heard: Callable[["Reply"], None] = lambda reply: None
    """What the sender learns from a reply, if it ever comes."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: an answer with the position of what it recorded, or why there is none."""

    answer: Any = None
    position: int | None = None
    repeated: bool = False
    refused: str | None = None
    unknown: bool = False

    @property
    def text(self) -> str:
        """In a few words."""
        if self.unknown:
            return "? unknown"
        if self.refused is not None:
            return f"! {self.refused}"
        if self.position is None:
            return "ok"
        return f"@{self.position}{' again' if self.repeated else ''}"


async def sent(message: Message, desk: Desk) -> Reply:
    """Deliver a message once, and what comes back."""
    try:
        answer = await message.send(desk, message.caller)
    except Refusal as refusal:
        return Reply(refused=refusal.code)
    except Unavailable as unavailable:
        return Reply(unknown=unavailable.code == "outcome_unknown", refused=unavailable.code)
    if isinstance(answer, Done):
        return Reply(answer=answer.answer, position=answer.position, repeated=answer.repeated)
    return Reply(answer=answer)
