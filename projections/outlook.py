"""What happens to a run next: one plain sentence, with the instant, and with who could change it.

It says what the deciders would decide if nobody did anything more, and which single act of whom would change that.
``blocks`` are what the index of grants knows and a run's facts do not: why a run that is due is not granted. Instants
are written in UTC to the millisecond, with the time until then, to the two units that matter (``1 d 2 h``).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, assert_never

from domain.grounds import pending_loss
from domain.handing import spends_the_last
from domain.lease import Held, Reserved
from domain.run import Parked, Queued, Run, Running, Settled, WaitingVerdict
from domain.standing import Standing
from domain.values import Moment

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_TENTHS_BELOW_S = 9.95
"""From here on tenths say nothing that anybody waits for."""


BlockedCode = Literal[
    "reserved", "not_due", "queue_full", "key_full", "tenant_full", "no_worker", "labels_missing",
    "workers_unwilling", "slots_used", "behind", "nobody_asks",
]  # fmt: skip
"""Everything that can keep a queued run from being granted."""


class Blocked(NamedTuple):
    """Why a queued run is not granted, and what would change that, each in the words of a part of a sentence."""

    code: BlockedCode
    because: str
    until: str
    details: dict[str, Any]
    """The values of the case, for programs."""


_SAID_OTHERWISE = frozenset({"reserved", "not_due", "nobody_asks"})
"""What the sentence about the state itself says already."""


def outlook(standing: Standing, now: Moment, blocks: Sequence[Blocked] = (), broke_at: datetime | None = None) -> str:
    """One sentence: what happens next, when, and who could change it; of several blocks the first is told.

    ``broke_at`` is when the holder's connection broke, if nothing was heard of it since.
    """
    run = standing.known
    blocked = next((block for block in blocks if block.code not in _SAID_OTHERWISE), None)
    phase = run.phase
    match phase:
        case Settled():
            return _of_settled(standing, phase)
        case Queued():
            return _of_queued(standing, phase, now, blocked)
        case Running():
            return _of_running(standing, now, broke_at)
        case Parked():
            return _of_parked(standing, phase, now)
        case WaitingVerdict():
            return (
                f"nothing happens until {_steerer(run)} gives the verdict on the worker's outcome {phase.outcome!r}; "
                "a cancel would settle the run instead."
            )
        case _:
            assert_never(phase)


def _of_settled(standing: Standing, phase: Settled) -> str:
    unknown = [key for key, effect in standing.effects.effects.items() if effect.state == "ambiguous"]
    settled = f"nothing: the run is {phase.state} ({phase.reason}) and never changes; retry makes a new run like it"
    if not unknown:
        return f"{settled}."
    return f"{settled}, and its leader or an operator may still reconcile {_effects(unknown)}."


def _effects(keys: list[str]) -> str:
    shown = ", ".join(repr(key) for key in keys[:3])
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"the ambiguous effect{'s' if len(keys) > 1 else ''} {shown}{more}"


def _of_queued(standing: Standing, phase: Queued, now: Moment, blocked: Blocked | None) -> str:
    run, lease = standing.known, standing.lease
    if isinstance(lease, Reserved):
        lapses = when(standing.ends_at(lease.lapses_at, now), now)
        return (
            f"worker {lease.worker!r} binds its reservation and starts attempt {run.attempt + 1}, or the reservation "
            f"lapses {lapses} and the run is queued as it was; a pause or a cancel would end it."
        )
    if phase.due_at > now.wall:
        return (
            f"it may be claimed from queue {run.submission.queue!r} {when(phase.due_at, now)}; "
            "a worker that claims it by id may take it before."
        )
    if blocked is not None:
        return (
            f"it is due and is not granted yet, because {blocked.because}; that changes once {blocked.until}, "
            f"and {_steerer(run)} may pause or cancel it before."
        )
    return (
        f"the next worker that claims queue {run.submission.queue!r}{_with_labels(run)} gets it in its turn, as "
        f"attempt {run.attempt + 1} under fence {lease.fence + 1}; {_steerer(run)} may pause or cancel it before."
    )


def _with_labels(run: Run) -> str:
    labels = run.submission.labels
    if not labels:
        return ""
    return " and has the labels " + ", ".join(f"{key}={value}" for key, value in labels.items())


def _of_running(standing: Standing, now: Moment, broke_at: datetime | None) -> str:
    run, lease = standing.known, standing.lease
    if run.cancel is not None:
        return (
            f"{_holder(standing)} may save and close until {when(run.cancel.settles_at, now, at='')}, and a success "
            "closed by then stands; otherwise the run is settled as cancelled."
        )
    if not isinstance(lease, Held):
        return "nobody holds its lease; the next claim by id takes it."
    if not standing.live(now):
        return (
            f"the lease of {_holder(standing)} is over since {_instant(_deadline(standing, lease, now))}: "
            f"{_expired(standing, lease)}; a worker that claims the run by id may take it over at once."
        )
    follows = _unless_renewed(run, standing, lease, now)
    if broke_at is None:
        return f"{_holder(standing)} goes on; {follows}."
    return f"the connection of {_holder(standing)} broke at {_instant(broke_at)}{_patience(standing)}; {follows}."


def _patience(standing: Standing) -> str:
    """Why the whole ttl of a holder is waited whose connection broke, where it is."""
    if pending_loss(standing) is not None:
        return ", and its whole ttl is waited, because it was asked about a loss"
    if spends_the_last(standing):
        return ", and its whole ttl is waited, because this is the run's last attempt"
    return ""


def _unless_renewed(run: Run, standing: Standing, lease: Held, now: Moment) -> str:
    deadline = _deadline(standing, lease, now)
    if lease.sliced:
        unless = f"unless it hands back, parks or closes {_by(deadline, now)}"
        return f"its slice is over, and {unless}, {_expired(standing, lease)}"
    unless = f"unless it renews {_by(deadline, now)}, {_expired(standing, lease)}"
    if run.pause_asked:
        return f"it was asked to pause, and the run is paused as soon as its attempt ends; {unless}"
    if lease.slice_ends_at is not None:
        return f"its slice ends {when(standing.ends_at(lease.slice_ends_at, now), now)}, and {unless}"
    return unless


def _expired(standing: Standing, lease: Held) -> str:
    run, loss = standing.known, pending_loss(standing)
    if loss is not None:
        return (
            f"{_by_loss(run)}, because workspace {loss.workspace_id} was lost ({lost_as(loss.reason, loss.exit_code)})"
        )
    if lease.sliced:
        return "the run is queued again, with nothing counted"
    failed, bound = run.failed_attempts + 1, run.policy.max_attempts
    if failed >= bound:
        return f"the run is aborted, because {failed} of {bound} attempts have then failed"
    if run.pause_asked:
        return f"the run is paused, with {failed} of {bound} attempts failed"
    return f"the run is queued again at once, with {failed} of {bound} attempts failed"


def _by_loss(run: Run) -> str:
    """What becomes of the run, at the end of its lease, by a loss that its holder was asked about."""
    failed, bound = run.failed_attempts + 1, run.policy.max_attempts
    match run.policy.on_workspace_lost:
        case "settle_lost":
            return "the run is settled as lost"
        case "park":
            return "the run waits to be taken over"
        case "retry_fresh":
            fresh = "is aborted" if failed >= bound else "is queued again for a fresh workspace"
            return f"the run {fresh}, with {failed} of {bound} attempts failed"


def lost_as(reason: str, exit_code: int | None) -> str:
    """How a workspace was lost, with the exit code where that is known."""
    return reason if exit_code is None else f"{reason}, exit {exit_code}"


def _of_parked(standing: Standing, phase: Parked, now: Moment) -> str:
    run = standing.known
    wish = ""
    if run.cancel is not None:
        wish = f", and unless its holder closes it with success it is cancelled {_by(run.cancel.settles_at, now)}"
    lease = standing.lease
    if isinstance(lease, Held) and standing.live(now):
        kept = (
            f"{_holder(standing)} keeps its lease and goes on then; "
            f"unless it renews {_by(_deadline(standing, lease, now), now)}, the lease ends and {_still(standing)}"
        )
        return f"{_awaited(run, phase)}: {kept}{wish}."
    return f"{_awaited(run, phase)}: it is then queued at the front of queue {run.submission.queue!r}{_taken(phase)}."


def _still(standing: Standing) -> str:
    """What becomes of a parked run at the end of the lease that it kept."""
    run = standing.known
    if pending_loss(standing) is None or run.policy.on_workspace_lost == "retry_fresh":
        return "the run stays parked"
    return _by_loss(run)


def _awaited(run: Run, phase: Parked) -> str:
    match phase.kind:
        case "waiting_input":
            return f"it waits, without a limit, until {_steerer(run)} answers its question"
        case "waiting_peer":
            return f"it waits, without a limit, until {_steerer(run)} answers for its peer"
        case "waiting_takeover":
            return f"it waits, without a limit, until {_steerer(run)} resumes it"
        case "paused":
            return f"it is paused until {_steerer(run)} resumes it"


def _taken(phase: Parked) -> str:
    return "" if phase.kind == "paused" else "; a worker that claims it by id may take it before"


def _steerer(run: Run) -> str:
    leader_id = run.leader_id
    return "an operator" if leader_id is None else f"its leader {leader_id!r} or an operator"


def _holder(standing: Standing) -> str:
    lease = standing.lease
    return f"worker {lease.worker!r} under fence {lease.fence}" if isinstance(lease, Held) else "nobody"


def _deadline(standing: Standing, lease: Held, now: Moment) -> datetime:
    mark = standing.mark
    if mark is None or mark.fence != lease.fence:
        return now.after(lease.ttl_s).wall
    return now.wall_at(mark.deadline)


def _by(instant: datetime, now: Moment) -> str:
    return when(instant, now, at="by ")


def when(instant: datetime, now: Moment, at: str = "at ") -> str:
    """The instant, and how long until then."""
    left = (instant - now.wall).total_seconds()
    return f"{at}{_instant(instant)} ({f'in {_span(left)}' if left > 0 else 'now'})"


def _span(seconds: float) -> str:
    """A time as people say it: tenths of a second below ten seconds, else the two units that matter."""
    if seconds < _TENTHS_BELOW_S:
        return f"{max(0.1, round(seconds, 1)):g} s"
    left, parts = round(seconds), []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        parts.append(f"{count} {name}" if count else "")
    first = next(place for place, part in enumerate(parts) if part)
    return " ".join(part for part in parts[first : first + 2] if part)


def _instant(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
