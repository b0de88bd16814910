"""Repeats of commands that an earlier version remembered, before a fence beside the body was part of the request.

Today a command is remembered under the digest of everything that it says, the fence included. Journals that were begun
before keep, for a fence that was presented as a header, the digest of the body alone. An exact repeat of such a command
must still be answered as it was, and the same words under another fence must not: so the fence that it was recorded
under is read off its facts, or off the lease as it was then.
"""

from typing import NamedTuple

from domain.standing import lease_stream
from journal.pending import CommandRow
from journal.store import Store


class Fenceless(NamedTuple):
    """A request as it was compared before: the digest of its body, and the fence that came beside it."""

    digest: str
    fence: int


def as_before(store: Store, row: CommandRow, asked: Fenceless | None) -> bool:
    """Whether what is remembered is this very request, by an earlier version's comparison and under the same fence."""
    return asked is not None and row.request_digest == asked.digest and _recorded_under(store, row) == asked.fence


def _recorded_under(store: Store, row: CommandRow) -> int | None:
    """The fence that the command's facts name first, or that was in force when they were recorded."""
    facts = store.facts_after(row.first - 1, row.last - row.first + 1)
    for recorded in facts:
        fence: int | None = getattr(recorded.fact, "fence", None)
        if fence is not None:
            return fence
    run_id = facts[0].meta.correlation_id
    before = [] if run_id is None else store.stream(lease_stream(run_id))
    fences = [recorded.fact.fence for recorded in before if recorded.position < row.first]  # type: ignore[attr-defined]
    return fences[-1] if fences else None
