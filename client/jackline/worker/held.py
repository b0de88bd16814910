"""A lease that this worker holds, as the rest of the runtime sees it.

It is held until it is lost, and it is lost once: because the service said so (`lost`), or because nobody confirmed it
in time (`distrust`). Whoever executes the run waits for that, and for instructions, which may be repeated by the
service until they are obeyed and are handed on once: per kind, and per workspace or turn that they are about.

Units: seconds on the worker's monotonic clock.
"""

import asyncio
from dataclasses import dataclass
from typing import Literal

from jackline.clock import Clock
from jackline.errors import FenceLost
from jackline.lease import Trust
from jackline.models import Claim, Instruction, LeaseRef, Renewal


@dataclass(frozen=True, slots=True)
class Loss:
    """How a lease ended against its holder's will."""

    kind: Literal["lost", "distrust"]
    reason: str | None = None
    current: int | None = None
    holder: str | None = None
    stop_within_s: float | None = None


class LeaseLost(Exception):
    """The lease is lost or can no longer be trusted; raised inside a handler that goes on calling."""

    def __init__(self, ref: LeaseRef, loss: Loss) -> None:
        super().__init__(ref, loss)
        self.ref = ref
        self.loss = loss

    def __str__(self) -> str:
        told = self.loss.reason or ("nobody confirmed it in time" if self.loss.kind == "distrust" else "lost")
        return f"the lease of {self.ref.run_id} under fence {self.ref.fence} has ended: {told}"


class HeldLease:
    """One lease, its trust, its end, and what the service asks of its holder."""

    def __init__(self, ref: LeaseRef, ttl_s: float, clock: Clock, grace_s: float = 0.0) -> None:
        self.ref = ref
        self.ttl_s = ttl_s
        self.trust: Trust | None = None
        self.loss: Loss | None = None
        self.asked_at: float | None = None
        self.changed = asyncio.Event()
        self.over = asyncio.Event()
        self._grace_s = grace_s
        self._clock = clock
        self._instructions: list[Instruction] = []
        self._told: set[tuple[str, object]] = set()

    @classmethod
    def of(cls, claim: Claim, clock: Clock, grace_s: float = 0.0) -> "HeldLease":
        """The lease that a claim granted; it is trusted from its first confirmed renewal on, not before."""
        return cls(LeaseRef(claim.run_id, claim.fence), claim.lease_ttl_s, clock, grace_s)

    @property
    def renew_every_s(self) -> float:
        """How often to renew."""
        return Trust(0.0, self.ttl_s).renew_every_s

    @property
    def stop_at(self) -> float | None:
        """The instant at which the work must be told to end if nobody confirms the lease before."""
        return None if self.trust is None else self.trust.trusted_until - self.trust.lead_s(self._grace_s)

    def renewed(self, asked_at: float, renewal: Renewal) -> None:
        """The service confirmed the lease."""
        self.ttl_s = renewal.ttl_s or self.ttl_s
        self.trust = Trust(asked_at, self.ttl_s).later(self.trust)
        self.changed.set()

    def instruct(self, instruction: Instruction) -> None:
        """The service asks for something; the same is handed on once."""
        if (key := _key_of(instruction)) not in self._told:
            self._told.add(key)
            self._instructions.append(instruction)
            self.changed.set()

    def take_instructions(self) -> list[Instruction]:
        """Instructions that nobody has taken yet."""
        taken, self._instructions = self._instructions, []
        return taken

    def lose(self, loss: Loss) -> None:
        """The lease has ended; what ended it first is what counts."""
        if self.loss is None:
            self.loss = loss
            self.over.set()
            self.changed.set()

    def lose_to(self, refusal: FenceLost) -> None:
        """A guarded write was refused: the same news as a `lost` renewal."""
        self.lose(Loss("lost", refusal.reason, refusal.current, refusal.holder))

    def distrust_if_due(self) -> None:
        """End the lease by our own clock when its trust has run down to the time that stopping takes."""
        stop_at = self.stop_at
        if stop_at is not None and self._clock.now() >= stop_at:
            self.lose(Loss("distrust", "no renewal was confirmed in time"))

    def still_held(self) -> None:
        """Raise `LeaseLost` when it is not."""
        if self.loss is not None:
            raise LeaseLost(self.ref, self.loss)


def _key_of(instruction: Instruction) -> tuple[str, object]:
    """What makes an instruction another one: its kind, and which workspace or turn it is about."""
    data = instruction.data if isinstance(instruction.data, dict) else {}
    return instruction.kind, data.get("workspace_id") or data.get("turn")


def loss_of(renewal: Renewal) -> Loss:
    """The loss that a `lost` renewal reports."""
    within = next((one.data.get("stop_within_s") for one in renewal.instructions if isinstance(one.data, dict)), None)
    seconds = float(within) if isinstance(within, int | float) else None
    return Loss("lost", renewal.reason, renewal.current, renewal.holder, seconds)
