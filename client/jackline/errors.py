"""What can go wrong between a caller and the service: a refusal, silence, or an answer that makes no sense.

Three kinds, never mixed:

- `Problem`: the service answered *no*. It has a stable `code`, and the values of the case as attributes; one class per
  family of codes that a caller may want to catch, the plain `Problem` for all others.
- `Unknown`: nobody answered, or the service could not say what came of the request. The command may have taken effect.
  It is never turned into a *no*; repeat it under the same `idempotency_key` to learn the outcome.
- `Garbled`: an answer that is not what the wire contract says. A bug, or something that is not Jackline.

Every class is built from the problem document itself, so that errors survive pickling and new fields are not lost.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

RETRY_AFTER_MAX_S: Final = 86_400.0  # beyond it, and of what is no number of seconds, nothing is believed


class JacklineError(Exception):
    """The root of everything that this package raises on purpose."""


class Garbled(JacklineError):
    """The answer does not have the shape that the wire contract promises."""


class Unknown(JacklineError):
    """No answer: the request may or may not have taken effect."""

    def __init__(self, message: str, idempotency_key: str | None = None, problem: "Problem | None" = None) -> None:
        super().__init__(message, idempotency_key, problem)
        self.message = message
        self.idempotency_key = idempotency_key
        self.problem = problem

    def __str__(self) -> str:
        return self.message


class FactsMissed(JacklineError):
    """More facts of a leader's runs came than were taken from `leader.facts()`; `jackline facts RUN` has them all."""


class Problem(JacklineError):
    """A refusal by the service; `fields` holds everything that its problem document said beside the common members."""

    codes: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        super().__init__(status, dict(document))
        self.status = status
        self.code = str(document.get("code", "unknown_problem"))
        self.title = str(document.get("title", ""))
        self.detail = str(document.get("detail") or self.title or self.code)
        common = ("type", "title", "status", "code", "detail")
        self.fields: dict[str, Any] = {name: value for name, value in document.items() if name not in common}

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which asking again may help; None when waiting does not."""
        value = self.fields.get("retry_after_s")
        return float(value) if isinstance(value, int | float) and 0 <= value <= RETRY_AFTER_MAX_S else None

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    def _text(self, name: str) -> str | None:
        value = self.fields.get(name)
        return None if value is None else str(value)

    def _number(self, name: str) -> int | None:
        value = self.fields.get(name)
        return value if isinstance(value, int) else None


class FenceLost(Problem):
    """A guarded write by somebody who does not hold the lease under that fence."""

    codes = frozenset({"fence_lost"})

    @property
    def presented(self) -> int | None:
        """The fence that the write carried."""
        return self._number("presented")

    @property
    def current(self) -> int | None:
        """The fence in force."""
        return self._number("current")

    @property
    def holder(self) -> str | None:
        """Who holds the lease now, if anybody does."""
        return self._text("holder")

    @property
    def reason(self) -> str | None:
        """How the right to write ended."""
        return self._text("reason")


class LeaseHeld(Problem):
    """A claim of a run that somebody holds or has reserved."""

    codes = frozenset({"lease_held"})

    @property
    def holder(self) -> str | None:
        """Who holds it."""
        return self._text("holder")

    @property
    def fence(self) -> int | None:
        """Under which fence."""
        return self._number("fence")


class RunSettled(Problem):
    """A command against a run that has already ended otherwise."""

    codes = frozenset({"run_settled"})

    @property
    def state(self) -> str | None:
        """How it ended."""
        return self._text("state")


class RunPaused(Problem):
    """The run is paused: only a resume brings it back."""

    codes = frozenset({"run_paused"})


class WrongState(Problem):
    """The run is in a state in which this cannot be asked of it."""

    codes = frozenset({"wrong_state", "verdict_pending"})

    @property
    def state(self) -> str | None:
        """The state it is in."""
        return self._text("state")


class NotFound(Problem):
    """Nothing goes by that id here."""

    codes = frozenset({"not_found", "run_unknown", "key_unknown", "effect_unknown"})


class WorkerUnknown(NotFound):
    """The worker has not been registered."""

    codes = frozenset({"worker_unknown"})


class WorkerUnfit(Problem):
    """The worker may not be granted this run: draining, quarantined, without the labels, or at a limit."""

    codes = frozenset({"worker_draining", "worker_quarantined", "labels_missing", "limit_reached"})


class WorkerInUse(Problem):
    """Another process is registered under this worker's id, and was heard."""

    codes = frozenset({"worker_in_use"})

    @property
    def where(self) -> str | None:
        """Where it says that it is."""
        return self._text("where")

    @property
    def since(self) -> str | None:
        """Since when it has been registered."""
        return self._text("since")


class LeasesHeld(Problem):
    """A worker cannot leave while it holds leases."""

    codes = frozenset({"leases_held"})


class Invalid(Problem):
    """The request is malformed, out of bounds, or contradicts an earlier one."""

    codes = frozenset({"invalid", "malformed", "body_too_large", "too_deep", "fence_required"})


class IdempotencyMismatch(Invalid):
    """The same idempotency key was used before, with another body or under another fence."""

    codes = frozenset({"idempotency_mismatch"})


class Unauthorised(Problem):
    """No key, or a key that is not known (any more)."""

    codes = frozenset({"unauthenticated"})


class Forbidden(Problem):
    """The key's role does not allow this."""

    codes = frozenset({"not_allowed"})


class ReservationLost(Problem):
    """The reservation has lapsed, was cancelled, or was made again since."""

    codes = frozenset({"reservation_lost"})


class RevisionStale(Problem):
    """The run was reassigned since the caller read its revision."""

    codes = frozenset({"revision_stale"})

    @property
    def presented(self) -> int | None:
        """The revision that the caller had seen."""
        return self._number("presented")

    @property
    def current(self) -> int | None:
        """The revision that the run is at."""
        return self._number("current")


class TimeoutUnknown(NotFound):
    """The run has no timeout of that id."""

    codes = frozenset({"timeout_unknown"})


class TimeoutAnswered(Problem):
    """The timeout was acknowledged before."""

    codes = frozenset({"timeout_answered"})

    @property
    def answer(self) -> str | None:
        """What it was acknowledged with: `extend` or `abort`."""
        return self._text("answer")


class WorkspaceUnknown(NotFound):
    """No workspace goes by that id, or it is none of the caller's business."""

    codes = frozenset({"workspace_unknown"})


class WorkspaceOver(Problem):
    """The workspace has ended: it is given no second body, a fresh one is a new workspace."""

    codes = frozenset({"workspace_over"})

    @property
    def phase(self) -> str | None:
        """How it ended: lost, provision_failed or destroyed."""
        return self._text("phase")

    @property
    def reason(self) -> str | None:
        """Why."""
        return self._text("reason")


class WrongPhase(Problem):
    """The command has no meaning in the phase that the workspace is in."""

    codes = frozenset({"wrong_phase"})

    @property
    def phase(self) -> str | None:
        """The phase it is in."""
        return self._text("phase")


class IdentityChanged(Problem):
    """Another body than the attached one was named; only an observation of kind `replaced` may say so."""

    codes = frozenset({"identity_changed"})

    @property
    def presented(self) -> str | None:
        """The identity that was named."""
        return self._text("presented")

    @property
    def attached(self) -> str | None:
        """The identity that the workspace stands on."""
        return self._text("attached")


class IncarnationBackwards(Problem):
    """The harness cannot have started fewer times than was seen before."""

    codes = frozenset({"incarnation_backwards"})

    @property
    def presented(self) -> int | None:
        """The incarnation that was named."""
        return self._number("presented")

    @property
    def current(self) -> int | None:
        """The incarnation that the workspace is at."""
        return self._number("current")


class TurnUnknown(NotFound):
    """The attempt has no turn of that number."""

    codes = frozenset({"turn_unknown"})


class TurnOver(Problem):
    """The turn has ended otherwise: the first of its end and a restart counts."""

    codes = frozenset({"turn_over"})

    @property
    def ended(self) -> str | None:
        """How it ended: completed, failed or cut."""
        return self._text("ended")


class EffectFrozen(Problem):
    """The effect's outcome is known, or nobody may say it any more."""

    codes = frozenset({"effect_frozen", "effect_not_ambiguous"})


class RateLimited(Problem):
    """Too many requests; wait `retry_after_s`."""

    codes = frozenset({"rate_limited"})


class ReadModelBehind(Problem):
    """A read with `min_position` that the read model did not reach in time."""

    codes = frozenset({"read_model_behind"})


_BY_STATUS: dict[int, type[Problem]] = {
    400: Invalid,
    401: Unauthorised,
    403: Forbidden,
    404: NotFound,
    413: Invalid,
    422: Invalid,
    429: RateLimited,
}


def _families(root: type[Problem]) -> dict[str, type[Problem]]:
    table = {code: root for code in root.codes}
    for family in root.__subclasses__():
        table |= _families(family)
    return table


_BY_CODE = _families(Problem)


def problem(status: int, document: Mapping[str, Any]) -> Problem:
    """The error for a problem document: by its code, else by its status, else a plain `Problem`."""
    family = _BY_CODE.get(str(document.get("code"))) or _BY_STATUS.get(status, Problem)
    return family(status, document)
