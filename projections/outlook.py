"""What happens to a run next: plain sentences, with the instants, and with who could change it.

They say what the deciders would decide if nobody did anything more, and which single act of whom would change that. Of
several clocks the one that is due first is told first (``projections.coming``).
``blocks`` are what the index of grants knows and a run's facts do not: why a run that is due is not granted. Instants
are written in UTC to the millisecond, with the time until then, to the two units that matter (``1 d 2 h``).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, assert_never

from domain.grounds import pending_loss
from domain.handing import spends_the_last
from domain.lease import Held, Reserved
from domain.run import Parked, Queued, Run, Running, Settled, WaitingVerdict
from domain.standing import Standing
from domain.values import Moment
from projections.coming import Clock, Coming, beside, by, in_order, instant_of, questions, when

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


class Ahead(NamedTuple):
    """What is known beside the run's facts and bears on what comes next."""

    blocks: Sequence[Blocked] = ()
    broke_at: datetime | None = None
    """When the holder's connection broke, if nothing was heard of it since."""
    clocks: Sequence[Clock] = ()


NOTHING_AHEAD = Ahead()


def outlook(standing: Standing, now: Moment, ahead: Ahead = NOTHING_AHEAD) -> str:
    """What happens next, when, and who could change it; of several blocks the first is told."""
    own = _of_state(standing, now, ahead)
    told = in_order(own, beside(standing, ahead.clocks, now))
    return f"{told} {questions(standing)}".rstrip()


def _of_state(standing: Standing, now: Moment, ahead: Ahead) -> Coming:
    """What the state of the run says about it."""
    run = standing.known
    phase = run.phase
    match phase:
        case Settled():
            never = f"nothing: the run is {phase.state} ({phase.reason}) and never changes"
            return Coming(f"{never}; retry makes a new run like it", ends=True)
        case Queued():
            return _of_queued(standing, phase, now, ahead.blocks)
        case Running():
            return _of_running(standing, now, ahead.broke_at)
        case Parked():
            return _of_parked(standing, phase, now)
        case WaitingVerdict():
            waits = f"{_steerer(run)} gives the verdict on the worker's outcome {phase.outcome!r}"
            return Coming(
                f"nothing happens until {waits}; a cancel would settle the run instead",
                meanwhile=f"it waits until {waits}",
            )
        case _:
            assert_never(phase)


def _of_queued(standing: Standing, phase: Queued, now: Moment, blocks: Sequence[Blocked]) -> Coming:
    run, lease = standing.known, standing.lease
    if isinstance(lease, Reserved):
        lapses_at = standing.ends_at(lease.lapses_at, now)
        return Coming(
            f"worker {lease.worker!r} binds its reservation and starts attempt {run.attempt + 1}, or the reservation "
            f"lapses {when(lapses_at, now)} and the run is queued as it was; a pause or a cancel would end it",
            lapses_at,
            f"worker {lease.worker!r} may bind its reservation",
        )
    if phase.due_at > now.wall:
        return Coming(
            f"it may be claimed from queue {run.submission.queue!r} {when(phase.due_at, now)}; "
            "a worker that claims it by id may take it before",
            phase.due_at,
            "only a worker that claims it by id may take it",
        )
    said = _SAID_OTHERWISE | {"behind"} if any(one.code == "nobody_asks" for one in blocks) else _SAID_OTHERWISE
    blocked = next((block for block in blocks if block.code not in said), None)  # a queue in which nobody asks stands
    if blocked is not None:
        waits = f"it is due and is not granted yet, because {blocked.because}; that changes once {blocked.until}"
        return Coming(f"{waits}, and {_steerer(run)} may pause or cancel it before", meanwhile=waits)
    gets = (
        f"the next worker that claims queue {run.submission.queue!r}{_with_labels(run)} gets it in its turn, as "
        f"attempt {run.attempt + 1} under fence {lease.fence + 1}"
    )
    return Coming(f"{gets}; {_steerer(run)} may pause or cancel it before", meanwhile=gets)


def _with_labels(run: Run) -> str:
    labels = run.submission.labels
    if not labels:
        return ""
    return " and has the labels " + ", ".join(f"{key}={value}" for key, value in labels.items())


def _of_running(standing: Standing, now: Moment, broke_at: datetime | None) -> Coming:
    run, lease = standing.known, standing.lease
    if not isinstance(lease, Held):
        return Coming(
            "nobody holds its lease; the next claim by id takes it", meanwhile="the next claim by id takes it"
        )
    deadline = _deadline(standing, lease, now)
    if not standing.live(now):
        over = f"the lease of {_holder(standing)} is over since {instant_of(deadline)}"
        more = "" if run.cancel is not None else "; a worker that claims the run by id may take it over at once"
        return Coming(f"{over}: {_expired(standing, lease)}{more}", deadline, ends=run.cancel is not None)
    if run.cancel is not None:
        return _of_asked_to_end(standing, run.cancel.settles_at, deadline, now)
    follows, due_at = _unless_renewed(run, standing, lease, now)
    if broke_at is None:
        goes_on = f"{_holder(standing)} goes on"
    else:
        goes_on = f"the connection of {_holder(standing)} broke at {instant_of(broke_at)}{_patience(standing)}"
    return Coming(f"{goes_on}; {follows}", due_at, goes_on)


def _of_asked_to_end(standing: Standing, settles_at: datetime, deadline: datetime, now: Moment) -> Coming:
    """A holder that was asked to end: it has its grace, and no longer than its lease."""
    saves = f"{_holder(standing)} may save and close"
    stands = "and a success closed by then stands"
    if deadline < settles_at:
        sentence = (
            f"{saves}; unless it renews {by(deadline, now)}, the run is settled as cancelled, otherwise "
            f"{when(settles_at, now)}, {stands}"
        )
    else:
        until = when(settles_at, now, at="")
        sentence = f"{saves} until {until}, {stands}; otherwise the run is settled as cancelled"
    return Coming(sentence, min(deadline, settles_at), saves, ends=True)


def _patience(standing: Standing) -> str:
    """Why the whole ttl of a holder is waited whose connection broke, where it is."""
    if pending_loss(standing) is not None:
        return ", and its whole ttl is waited, because it was asked about a loss"
    if spends_the_last(standing):
        return ", and its whole ttl is waited, because this is the run's last attempt"
    return ""


def _unless_renewed(run: Run, standing: Standing, lease: Held, now: Moment) -> tuple[str, datetime]:
    """What follows at the deadline, with the end of the slice before or after it as it comes; and what is due first."""
    deadline = _deadline(standing, lease, now)
    if lease.sliced:
        unless = f"unless it hands back, parks or closes {by(deadline, now)}"
        return f"its slice is over, and {unless}, {_expired(standing, lease)}", deadline
    unless = f"unless it renews {by(deadline, now)}, {_expired(standing, lease)}"
    if run.pause_asked:
        return f"it was asked to pause, and the run is paused as soon as its attempt ends; {unless}", deadline
    if lease.slice_ends_at is None:
        return unless, deadline
    ends_at = standing.ends_at(lease.slice_ends_at, now)
    ends = f"its slice ends {when(ends_at, now)}"
    return (f"{ends}, and {unless}", ends_at) if ends_at <= deadline else (f"{unless}; {ends}", deadline)


def _expired(standing: Standing, lease: Held) -> str:
    run, loss = standing.known, pending_loss(standing)
    if run.cancel is not None:
        return "the run is settled as cancelled, as was asked"
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


def _of_parked(standing: Standing, phase: Parked, now: Moment) -> Coming:
    run, lease = standing.known, standing.lease
    awaited = _awaited(run, phase)
    if not isinstance(lease, Held) or not standing.live(now):
        front = f"it is then queued at the front of queue {run.submission.queue!r}{_taken(phase)}"
        return Coming(f"{awaited}: {front}", meanwhile=awaited)
    deadline = _deadline(standing, lease, now)
    unless = f"unless it renews {by(deadline, now)}, the lease ends and {_still(standing)}"
    due_at, ends = deadline, run.cancel is not None
    if run.cancel is not None:
        settles_at = run.cancel.settles_at
        wish = f"unless its holder closes it with success it is cancelled {by(settles_at, now)}"
        unless = f"{unless}, and {wish}" if deadline <= settles_at else f"{wish}, and {unless}"
        due_at = min(deadline, settles_at)
    return Coming(f"{awaited}: {_holder(standing)} keeps its lease and goes on then; {unless}", due_at, awaited, ends)


def _still(standing: Standing) -> str:
    """What becomes of a parked run at the end of the lease that it kept."""
    run = standing.known
    if run.cancel is not None:
        return "the run is settled as cancelled"
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
