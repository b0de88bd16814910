"""Instants in columns: whole microseconds since 1970 (UTC), which sort as numbers; ``NEVER`` stands for none."""

from datetime import datetime, timedelta

from domain.values import EPOCH

NEVER = 2**62
"""Stands for no instant in a column that is sorted by; it sorts last."""


def microseconds(instant: datetime | None) -> int:
    """An instant as a column keeps it; ``NEVER`` for none."""
    if instant is None:
        return NEVER
    since = instant - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def instant_of(column: int | None) -> datetime | None:
    """The instant that a column keeps; None for none."""
    return None if column is None or column == NEVER else EPOCH + timedelta(microseconds=column)
