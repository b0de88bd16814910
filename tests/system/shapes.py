"""The shapes of the wire contract, as strangers rely on them: exact sets of names, and what instants look like.

Written from the contract of the interface, not from the code that serves it. A name that is missing, or one that is not
promised, fails.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

INSTANT = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$")

RUN = frozenset({
    "run_id", "queue", "name", "tags", "labels", "priority", "run_after", "concurrency_key", "state", "reason",
    "leader_id", "revision", "fence", "attempt", "failed_attempts", "owner", "due_at", "payload", "policy", "question",
    "answers", "partial", "result", "error", "retry_of", "workspaces", "evidence", "submitted_at", "settled_at",
    "position",
})  # fmt: skip
LISTED = RUN - {"payload"}
EVIDENCE = frozenset({"last_renewed_at", "lease_deadline", "last_activity_at", "quiet_since", "unknown_since"})
POLICY: Mapping[str, Any] = {
    "max_attempts": 3, "lease_ttl_s": 60, "max_hold_s": None, "retry_base_s": 10, "retry_cap_s": 300,
    "verdict_by": "worker", "on_quiet": "report", "quiet_after_s": 300, "total_after_s": 1800,
    "on_leader_gone": "cancel", "on_workspace_lost": "settle_lost",
}  # fmt: skip
SUBMITTED = frozenset({"run_id", "state", "position", "leader"})
FACT = frozenset({"position", "fact_id", "topic", "stream", "recorded_at", "causation_id", "principal", "data"})
CLAIM = frozenset({"run_id", "fence", "attempt", "lease_ttl_s", "payload", "partial", "answers", "effects"})
RENEWAL = frozenset({
    "run_id", "fence", "outcome", "current", "holder", "reason", "ttl_s", "slice_ends_in_s", "instructions",
})  # fmt: skip
WHY = frozenset({
    "state", "because", "evidence", "fence", "clocks", "next",
    "queue", "refused", "turns", "waiting_for", "workspaces",
})  # fmt: skip


def exactly(names: Collection[str], document: Mapping[str, Any]) -> None:
    """Fail when the document has other names than these."""
    assert set(names) == set(document), f"too many: {set(document) - set(names)}, missing: {set(names) - set(document)}"


def instant(text: object) -> None:
    """Fail when this is no RFC 3339 instant in UTC."""
    assert isinstance(text, str)
    assert INSTANT.match(text), text


def run(document: Mapping[str, Any]) -> None:
    """Fail when this is no run as it is shown."""
    exactly(RUN, document)
    _of_run(document)


def listed(document: Mapping[str, Any]) -> None:
    """Fail when this is no run as a list shows it."""
    exactly(LISTED, document)
    _of_run(document)


def _of_run(document: Mapping[str, Any]) -> None:
    exactly(EVIDENCE, document["evidence"])
    exactly(POLICY, document["policy"])
    instant(document["submitted_at"])
    for answered in document["answers"]:
        exactly({"question", "answer", "principal", "at"}, answered)


def facts(documents: Collection[Mapping[str, Any]]) -> None:
    """Fail when these are no facts in order."""
    for document in documents:
        exactly(FACT, document)
        instant(document["recorded_at"])
    positions = [document["position"] for document in documents]
    assert positions == sorted(set(positions))
