"""Planted faults in what happens to a mark while the fact that follows from it is on its way into the journal."""

import pytest

from evidence.memory import LeaseMarks
from evidence.taken import Taken


def lose_a_mark_that_was_taken(patch: pytest.MonkeyPatch) -> None:
    """An expiry whose append fails does not put the mark of its lease back."""
    patch.setattr(LeaseMarks, "put_back", lambda marks, run_id: marks._taken.pop(run_id, None))


def renew_what_is_being_judged(patch: pytest.MonkeyPatch) -> None:
    """An assertion is acknowledged although a reap is on its way that does not know of it."""
    patch.setattr(Taken, "__contains__", lambda taken, name: False)


def judge_without_end(patch: pytest.MonkeyPatch) -> None:
    """What was judged by an append stays so after it has ended."""
    patch.setattr(Taken, "put_back", lambda taken, name: None)
