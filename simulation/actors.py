"""Who acts in the world, and who chooses for them.

An actor composes a message and learns from the reply, if one comes; it believes what it was last told. Every choice is
made by a `Chooser`, so the same actors serve a seed and Hypothesis.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from commands.desk import Caller, Desk
from simulation.messages import Message, Reply

T = TypeVar("T")

QUEUES = ("default", "builds")
EFFECTS = ("mail", "pay")


class Chooser(Protocol):
    """Makes every choice of a world."""

    def pick(self, options: Sequence[T]) -> T:
        """One of these."""

    def chance(self, percent: int) -> bool:
        """Whether it happens, so many times in a hundred."""


class Actor:
    """Somebody with a name and a role, whose every command has an id of its own."""

    def __init__(self, caller: Caller, chooser: Chooser) -> None:
        self.caller = caller
        self.chooser = chooser
        self._sent = 0

    def message(
        self,
        text: str,
        send: Callable[[Desk, Caller], Any],
        heard: Callable[[Reply], None] = lambda reply: None,
        right: tuple[str, int, str] | None = None,
    ) -> Message:
        """A message under the next command id."""
        self._sent += 1
        command_id = f"{self.caller.principal}-{self._sent}"
        caller = Caller(
            principal=self.caller.principal,
            role=self.caller.role,
            leaders=self.caller.leaders,
            workers=self.caller.workers,
            command_id=command_id,
            request_digest=text,
        )
        return Message(caller=caller, text=text, send=send, heard=heard, right=right)


def short(run_id: str) -> str:
    """The end of an id: what tells counted ids apart."""
    return f"r{run_id[-5:].lstrip('0')}"


def named(run_id: str, fence: int) -> str:
    """A run under a fence."""
    return f"{short(run_id)}#{fence}"
