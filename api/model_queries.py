"""What may be asked of the stored read models: the query of each of their lists, with defaults and bounds.

Like those of ``api/requests.py``, they arrive as text, are read leniently, and are closed.
"""

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from api.requests import Reading
from domain.effects import EffectState

DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DAY_LIMIT = "a day of the calendar, YYYY-MM-DD"


def _day(value: Any) -> date:
    """A day that is written like one; what else could be read as a day, such as a count of seconds, is none."""
    if not (isinstance(value, str) and DAY.fullmatch(value)):
        raise ValueError(DAY_LIMIT)
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        raise ValueError(DAY_LIMIT) from error


Day = Annotated[date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]


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
    day_from: Day | None = None
    day_to: Day | None = None


class ReadProjections(Reading):
    """How much to say about the read models."""

    digest: bool = Field(False, description="read every row, and answer with a digest of each model")
