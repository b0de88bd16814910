"""Failures become problem documents (RFC 9457) here and nowhere else, from one table of codes.

Three kinds, never mixed. A *refusal* (4xx) says no: nothing was changed, and its fields are those of the exception. An
*unavailability* (503, 504) says "not now" or "nobody knows", with ``retry_after_s`` in the body and ``Retry-After`` in
the head; the same command may be sent again under the same idempotency key. Anything else is a bug of ours or damage
to our files: it is logged, kept in ``/healthz``, and answered ``internal`` (500) without a detail that was not meant
for the caller.

``STATUS`` is the closed table of every code that can be sent; ``docs/refusals.md`` describes each.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from domain.refusal import Refusal
from journal.errors import JournalError

STATUS: Mapping[str, int] = {
    "invalid": 422,
    "malformed": 422,
    "body_too_large": 413,
    "too_deep": 413,
    "encoding_unknown": 415,
    "unauthenticated": 401,
    "rate_limited": 429,
    "not_allowed": 403,
    "not_found": 404,
    "key_unknown": 404,
    "key_made": 409,
    "last_admin_key": 409,
    "method_not_allowed": 405,
    "too_many_streams": 503,
    "booting": 503,
    "stopping": 503,
    "read_model_behind": 504,
    "internal": 500,
    "run_unknown": 404,
    "run_not_yet": 404,
    "position_beyond": 422,
    "instant_before": 422,
    "instant_beyond": 422,
    "past_too_wide": 422,
    "run_settled": 409,
    "run_paused": 409,
    "wrong_state": 409,
    "verdict_pending": 409,
    "lease_held": 409,
    "fence_lost": 409,
    "fence_required": 428,
    "reservation_lost": 409,
    "limit_reached": 409,
    "labels_missing": 409,
    "epoch_changed": 503,
    "journal_taken": 503,
    "timeout_unknown": 404,
    "timeout_answered": 409,
    "revision_stale": 409,
    "worker_unknown": 404,
    "worker_draining": 409,
    "worker_in_use": 409,
    "worker_quarantined": 409,
    "leases_held": 409,
    "workspace_unknown": 404,
    "workspace_over": 409,
    "wrong_phase": 409,
    "identity_changed": 409,
    "incarnation_backwards": 409,
    "turn_unknown": 404,
    "turn_over": 409,
    "effect_unknown": 404,
    "effect_frozen": 409,
    "effect_not_ambiguous": 409,
    "sync_broken": 409,
    "scope_observed": 409,
    "idempotency_mismatch": 422,
    "journal_busy": 503,
    "journal_contended": 503,
    "journal_closed": 503,
    "outcome_unknown": 503,
    "storage_unreadable": 503,
    "projections_busy": 503,
}
"""Code to HTTP status, for everything that can be sent."""

JSON = (b"content-type", b"application/problem+json")
TEXT_MAX_CHARS = 500
"""Longest text in a problem: a value that is far too long is shown by its beginning, not sent back."""
_COMMON = ("type", "title", "status", "code", "detail")


class Problem(msgspec.Struct, frozen=True):
    """One failure, ready to be sent: status, document, and headers beyond the content type."""

    status: int
    document: dict[str, Any]
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def code(self) -> str:
        """The stable code."""
        return str(self.document["code"])

    @property
    def body(self) -> bytes:
        """The document as JSON."""
        return msgspec.json.encode(self.document)


class BodyTooLarge(Refusal):
    """The body exceeds the bound of its route; it was not read further."""

    code = "body_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body has more than {limit} bytes", limit=limit)


class EncodingUnknown(Refusal):
    """The body is packed, and bodies are taken as they are."""

    code = "encoding_unknown"

    def __init__(self, encoding: str) -> None:
        super().__init__(f"the body has the encoding {encoding[:64]!r}; it must have none", encoding=encoding[:64])


class TooDeep(Refusal):
    """The JSON is nested deeper than the bound."""

    code = "too_deep"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is nested more than {limit} levels deep", limit=limit)


class Malformed(Refusal):
    """The body is not one JSON value, or one that everybody reads in the same way."""

    code = "malformed"

    def __init__(self, problem: str) -> None:
        super().__init__(f"the body is not JSON that can be accepted: {problem}", problem=problem)


class InvalidBody(Refusal):
    """The body is JSON and does not have the shape of its route; ``errors`` names every field that is wrong."""

    code = "invalid"

    def __init__(self, errors: list[dict[str, str]]) -> None:
        first = errors[0]
        super().__init__(
            f"{first['field'] or 'the body'} must be {first['limit']}",
            field=first["field"],
            limit=first["limit"],
            errors=errors,
        )


class Unauthenticated(Refusal):
    """There is no key, or none that opens anything; which of the two it is is not said."""

    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__("a valid key is required: send `Authorization: Bearer <key>`")


class TooManyFailures(Refusal):
    """Too many keys that open nothing came from this address; one that opens something is let in all the same."""

    code = "rate_limited"

    def __init__(self, limit: int, retry_after_s: float) -> None:
        super().__init__(
            f"more than {limit} keys that open nothing came from this address within a minute",
            limit=limit,
            retry_after_s=round(retry_after_s, 3),
        )


class RoleNotAllowed(Refusal):
    """The caller's role may not use this route; ``allowed`` says which may."""

    code = "not_allowed"

    def __init__(self, *, principal: str, role: str, route: str, allowed: list[str]) -> None:
        super().__init__(
            f"{principal!r} has the role {role}; {route} is for {', '.join(allowed)}",
            principal=principal, role=role, action=route, allowed=allowed,
        )  # fmt: skip


class RouteUnknown(Refusal):
    """Nothing is at this path."""

    code = "not_found"

    def __init__(self, path: str) -> None:
        super().__init__(f"nothing is at {path[:200]!r}", path=path[:200])


class MethodNotAllowed(Refusal):
    """Something is at this path, and it does not answer to this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: list[str]) -> None:
        super().__init__(f"{method} is not allowed here; {', '.join(allowed)} is", method=method, allowed=allowed)


class KeyUnknown(Refusal):
    """No key has this id."""

    code = "key_unknown"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key has the id {key_id!r}", key_id=key_id)


class KeyMade(Refusal):
    """This very request has made a key already; its secret was in the first answer and cannot be shown again."""

    code = "key_made"

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"this idempotency key has made the key {key_id!r}, whose secret was shown once: "
            "if that answer was lost, revoke the key and make another under a new idempotency key",
            key_id=key_id,
        )


class LastAdminKey(Refusal):
    """No other admin key opens anything; without this one nobody could make or revoke a key."""

    code = "last_admin_key"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"{key_id!r} is the last live admin key: create another admin key first", key_id=key_id)


class TooManyStreams(Refusal):
    """As many streams are open as this service carries."""

    code = "too_many_streams"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} streams are open, and no more are taken", limit=limit, retry_after_s=5.0)


class Booting(Refusal):
    """The service has not finished its boot."""

    code = "booting"

    def __init__(self, step: str) -> None:
        super().__init__(f"the service is booting: {step}", step=step, retry_after_s=1.0)


class Stopping(Refusal):
    """The service is draining before its exit, and begins nothing new."""

    code = "stopping"

    def __init__(self) -> None:
        super().__init__("the service is stopping", retry_after_s=1.0)


def problem_of(error: Exception) -> Problem:
    """The problem that this failure is sent as; a failure that nobody foresaw is ``internal``, without detail."""
    if isinstance(error, Refusal | JournalError) and error.code in STATUS:
        return _problem(error.code, error.message, error.fields())
    return _problem("internal", "the service failed; its log and /healthz say why", {})


def _problem(code: str, detail: str, fields: dict[str, Any]) -> Problem:
    status = STATUS[code]
    document = {
        "type": f"urn:jackline:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": _cut(detail),
        **{name: _cut(value) for name, value in fields.items() if name not in _COMMON},
    }
    return Problem(status, document, tuple(_headers(code, fields)))


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_MAX_CHARS:
        return value[: TEXT_MAX_CHARS - 1] + "…"
    return value


def _headers(code: str, fields: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    headers = []
    wait_s = fields.get("retry_after_s")
    if isinstance(wait_s, int | float):
        headers.append((b"retry-after", str(max(0, math.ceil(wait_s))).encode()))
    if code == "unauthenticated":
        headers.append((b"www-authenticate", b'Bearer realm="jackline"'))
    if code == "method_not_allowed":
        headers.append((b"allow", ", ".join(fields["allowed"]).encode()))
    return headers
