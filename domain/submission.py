"""Submitting a run: what a leader may ask for, within which limits.

Everything is optional; the defaults are the ones people should want. A submission's id is fresh, or derived from its
idempotency key, so that the same key can never make two runs: the stream's first version is the guard. The same key
with another body is refused. All bounds are inclusive; durations are seconds.
"""

import hashlib
from datetime import datetime
from typing import Literal

import msgspec

from domain.lease import TTL_MAX_S, TTL_MIN_S
from domain.refusal import InvalidCommand, Refusal
from domain.values import NULL, Json, Value

MAX_ATTEMPTS_MAX = 1_000
PRIORITY_MAX = 1_000_000
DURATION_MAX_S = 31_536_000.0
NAME_MAX_CHARS = 200
LABELS_MAX = 64
ID_MAX_CHARS = 128
ID_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Policy(Value, frozen=True, kw_only=True):
    """What the run's owner decided in advance, for every case that needs no person."""

    max_attempts: int = 3
    lease_ttl_s: float = 60.0
    max_hold_s: float | None = None
    retry_base_s: float = 10.0
    retry_cap_s: float = 300.0
    verdict_by: Literal["worker", "leader"] = "worker"
    on_quiet: Literal["report", "fail_attempt"] = "report"
    quiet_after_s: float = 300.0
    total_after_s: float = 1800.0
    on_leader_gone: Literal["cancel", "keep", "park"] = "cancel"
    on_workspace_lost: Literal["settle_lost", "retry_fresh", "park"] = "settle_lost"

    def backoff_s(self, failed_attempts: int) -> float:
        """Seconds to wait after that many attempts that reported failure: doubling from the base up to the cap."""
        doublings = min(max(failed_attempts - 1, 0), 63)
        return float(min(self.retry_cap_s, self.retry_base_s * 2**doublings))


class Submit(Value, frozen=True, kw_only=True):
    """A leader wants this run."""

    queue: str = "default"
    name: str | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    payload: Json = NULL
    leader_id: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    priority: int = 0
    run_after: datetime | None = None
    concurrency_key: str | None = None
    policy: Policy = Policy()
    retry_of: str | None = None
    body_digest: str | None = None
    """Set with an idempotency key: what the whole body was, so that another body under the key is refused."""


class SubmissionMismatch(Refusal):
    """The idempotency key belongs to a run that was submitted with another body."""

    code = "idempotency_mismatch"

    def __init__(self, *, key: str, run_id: str | None = None) -> None:
        super().__init__(
            f"idempotency key {key!r} was used with another body; use a new key for a new request",
            key=key, run_id=run_id,
        )  # fmt: skip


def run_id_of(tenant: str, queue: str, idempotency_key: str) -> str:
    """The id of the one run that this key can name in this tenant's queue."""
    name = "\0".join((tenant, queue, idempotency_key))
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def check_id(field: str, value: str) -> None:
    """Refuse an id that is empty, too long, or has other characters than letters, digits, dot, underscore, hyphen."""
    if not value or len(value) > ID_MAX_CHARS or not ID_CHARS.issuperset(value):
        raise InvalidCommand(
            field=field, value=value[: ID_MAX_CHARS + 1], limit=f"1 to {ID_MAX_CHARS} characters of [A-Za-z0-9._-]"
        )


def check(command: Submit) -> None:
    """Refuse a submission outside its bounds, naming the field, the value and the limit."""
    check_id("queue", command.queue)
    if command.leader_id is not None:
        check_id("leader_id", command.leader_id)
    _check_text("name", command.name)
    _check_text("concurrency_key", command.concurrency_key)
    check_labels("tags", command.tags)
    check_labels("labels", command.labels)
    _check_range("priority", command.priority, -PRIORITY_MAX, PRIORITY_MAX)
    check_policy(command.policy)
    if command.policy.verdict_by == "leader" and command.leader_id is None:
        raise InvalidCommand(field="policy.verdict_by", value="leader", limit="'worker' for a run without a leader_id")


def check_policy(policy: Policy) -> None:
    """Refuse a policy outside its bounds."""
    _check_range("policy.max_attempts", policy.max_attempts, 1, MAX_ATTEMPTS_MAX)
    _check_range("policy.lease_ttl_s", policy.lease_ttl_s, TTL_MIN_S, TTL_MAX_S)
    if policy.max_hold_s is not None:
        _check_range("policy.max_hold_s", policy.max_hold_s, TTL_MIN_S, DURATION_MAX_S)
    for field in ("retry_base_s", "retry_cap_s", "quiet_after_s", "total_after_s"):
        _check_range(f"policy.{field}", getattr(policy, field), 0, DURATION_MAX_S)


def _check_range(field: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidCommand(field=field, value=value, limit=f"between {low:.12g} and {high:.12g}")


def _check_text(field: str, value: str | None) -> None:
    if value is not None and not 1 <= len(value) <= NAME_MAX_CHARS:
        raise InvalidCommand(field=field, value=value[: NAME_MAX_CHARS + 1], limit=f"1 to {NAME_MAX_CHARS} characters")


def check_labels(field: str, value: dict[str, str]) -> None:
    """Refuse a map of labels or tags that is too large."""
    if len(value) > LABELS_MAX:
        raise InvalidCommand(field=field, value=len(value), limit=f"at most {LABELS_MAX} entries")
    for key, text in value.items():
        if not 1 <= len(key) <= NAME_MAX_CHARS or len(text) > NAME_MAX_CHARS:
            raise InvalidCommand(
                field=f"{field}.{key[: NAME_MAX_CHARS + 1]}",
                value=text[: NAME_MAX_CHARS + 1],
                limit=f"at most {NAME_MAX_CHARS} characters, under a name of 1 to {NAME_MAX_CHARS}",
            )
