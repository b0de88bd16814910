"""What may be asked of the stored read models: the query of each of their lists, with defaults and bounds.

Like those of ``api/requests.py``, they arrive as text, are read leniently, and are closed.
"""

from datetime import date
from typing import Literal

from pydantic import Field

from api.requests import Reading
from domain.effects import EffectState


class Paging(Reading):
    """Which page of a list, and how fresh."""

    limit: int = Field(50, ge=1, le=500)
    cursor: str | None = Field(None, max_length=2000)


class ListEffects(Paging):
    """Which effects of which runs."""

    state: list[EffectState] = Field(default_factory=list)
    queue: str | None = None
    run_id: str | None = None


class ListWorkers(Paging):
    """Which workers; without a state, those that are registered."""

    state: list[Literal["active", "draining", "quarantined", "left", "gone"]] = Field(default_factory=list)


class ListLeaders(Paging):
    """Which leaders; without a state, those that are connected or have open runs."""

    state: list[Literal["present", "absent", "gone", "never_seen"]] = Field(default_factory=list)


class ListQueues(Paging):
    """Which queues; without `all`, those that have limits, leases or queued runs."""

    all: bool = False


class ReadUsage(Paging):
    """Usage of which queue on which days (UTC), both included."""

    queue: str | None = None
    day_from: date | None = None
    day_to: date | None = None


class ReadProjections(Reading):
    """How much to say about the read models."""

    digest: bool = Field(False, description="read every row, and answer with a digest of each model")
