"""The journal over HTTP: facts after a position as CloudEvents, a bounded page at a time, for export and followers.

A page ends at its limit, or at ``PAGE_BYTES``. It says the journal's epoch, so that whoever keeps a copy notices a
restore: positions of another epoch are not positions of this one. Only facts that have been published are given, and
only those of the caller's tenant; ``next_after`` counts the others too, so that nothing is read twice.
"""

from typing import Any

import msgspec

from api.calls import Call, encode
from api.requests import ReadFacts
from api.views import PAGE_BYTES
from journal.cloud import cloud_fact_of
from journal.tool_errors import PositionBeyond


def journal_page(call: Call, query: ReadFacts) -> dict[str, Any]:
    """Facts of the journal after a position, in order; ``next_after`` is null when there are no more for now.

    Raises:
        PositionBeyond: the position is one that the journal does not have.
    """
    journal = call.desk.journal
    store, end = journal.store, journal.position
    if query.after > end:
        raise PositionBeyond(query.after, end)
    last, size = query.after, 0
    facts: list[msgspec.Raw] = []
    for row in store.rows_after(query.after, min(end, query.after + query.limit)):
        last = row[0]
        fact = cloud_fact_of(row, store.codec, store.journal_id)
        if fact.tenant == call.caller.tenant:
            document = encode(fact)
            size += len(document)
            facts.append(msgspec.Raw(document))
        if size >= PAGE_BYTES:
            break
    return {
        "facts": facts,
        "next_after": last if last < end else None,
        "position": end,
        "journal_id": store.journal_id,
        "epoch": journal.epoch,
    }
