"""What is coming, in the order in which it is due: sentences that one answer is put together from.

The state of a run has a sentence of its own, with the instant of the clock that decides about it. Beside it run clocks
that know nothing of the state: the grace of an absent leader, and a quiet stretch that would end the attempt. What is
due first is told first. Behind something that ends the run unless somebody prevents it, nothing that is due later is
told as if it came; what goes on until then is said instead.

Clocks that only tell (*total*, an absence under ``keep``, a quiet stretch under ``report``) decide nothing, and are not
told here: they stand among the clocks, and what they told and nobody has answered follows as a question.
"""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from domain.lease import Held, Vacant
from domain.quiet import unanswered
from domain.run import Parked, Run, Running, Settled, WaitingVerdict
from domain.standing import Standing
from domain.values import Moment, Value

EFFECTS_TOLD = 3
"""Ambiguous effects that are named in the sentence about them."""

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_TENTHS_BELOW_S = 9.95
"""From here on tenths say nothing that anybody waits for."""


class Clock(Value, frozen=True):
    """A clock that is running: its name, since when, when it is due, and what of the run it is about."""

    name: str
    since: datetime | None
    due_at: datetime
    workspace_id: str | None = None
    turn: int | None = None


class Coming(NamedTuple):
    """Something that is coming, as a sentence without its full stop."""

    sentence: str
    due_at: datetime | None = None
    """None where no clock decides."""
    meanwhile: str = ""
    """What is so until something else comes, which is due before."""
    ends: bool = False
    """Whether nothing that is due later comes."""


def in_order(own: Coming, others: Sequence[Coming]) -> str:
    """One text of what is coming, what is due first first; ``own`` is what the state of the run says."""
    due = [(other, other.due_at) for other in others if other.due_at is not None]
    ordered = sorted(due, key=lambda one: one[1])
    before = _until_the_end([other for other, at in ordered if own.due_at is None or at <= own.due_at])
    if before and before[-1].ends:
        first, *more = before
        told = [f"{first.sentence}; until then {own.meanwhile}", *(one.sentence for one in more)]
    else:
        after = [] if own.ends else _until_the_end([other for other, _ in ordered[len(before) :]])
        told = [one.sentence for one in (*before, own, *after)]
    return " ".join(f"{text if place == 0 else text[0].upper() + text[1:]}." for place, text in enumerate(told))


def _until_the_end(coming: Sequence[Coming]) -> list[Coming]:
    """These, as far as the first that ends it."""
    last = next((place for place, one in enumerate(coming) if one.ends), len(coming))
    return list(coming[: last + 1])


def decides(name: str, standing: Standing) -> bool:
    """Whether the clock of this name decides about the run or its attempt; the others only tell, or are not its own."""
    match name:
        case "leader_grace":
            return _by_absence(standing, standing.known) is not None
        case "inactivity":
            return _may_stall(standing)
        case _:
            return name not in ("total", "provisioning", "idle_reap", "admission")


def beside(standing: Standing, clocks: Sequence[Clock], now: Moment) -> list[Coming]:
    """What is coming by clocks that know nothing of the run's state, as far as they decide anything."""
    found = [_of_clock(standing, clock, now) for clock in clocks]
    return [coming for coming in found if coming is not None]


def _of_clock(standing: Standing, clock: Clock, now: Moment) -> Coming | None:
    if isinstance(standing.known.phase, Settled):
        return None
    match clock.name:
        case "leader_grace":
            return _absence(standing, clock.due_at, now)
        case "inactivity":
            return _stall(standing, clock.due_at, now)
        case _:
            return None


def _absence(standing: Standing, due_at: datetime, now: Moment) -> Coming | None:
    """What the absence of the run's leader comes to by the run's own policy; None when it is only told."""
    run = standing.known
    follows = _by_absence(standing, run)
    if follows is None:
        return None
    back = f"unless its leader {run.leader_id!r} is back before (`jackline attach {run.run_id}`)"
    return Coming(f"{when(due_at, now)} {follows}, {back}", due_at, ends=True)


def _by_absence(standing: Standing, run: Run) -> str | None:
    match run.policy.on_leader_gone:
        case "cancel":
            return "the run is settled as cancelled (leader_gone)"
        case "park" if run.cancel is not None:
            return "the run is settled as cancelled, as was asked"
        case "park":
            vacant = isinstance(standing.lease, Vacant)
            paused = isinstance(run.phase, Parked) and run.phase.kind == "paused"
            if isinstance(run.phase, WaitingVerdict) or (paused and vacant):
                return None
            revoked = "" if vacant else ", its lease revoked,"
            return f"the run is paused (leader_gone){revoked} until somebody resumes it"
        case "keep":
            return None


def _stall(standing: Standing, due_at: datetime, now: Moment) -> Coming | None:
    """What a quiet stretch comes to under ``on_quiet: fail_attempt``; None when it is only told."""
    run = standing.known
    if not _may_stall(standing):
        return None
    failed, bound = run.failed_attempts + 1, run.policy.max_attempts
    count = f"with {failed} of {bound} attempts failed"
    if run.cancel is not None:
        then = "the run is settled as cancelled, as was asked"
    elif failed >= bound:
        then = f"the run is aborted, {count}"
    elif run.pause_asked:
        then = f"the run is paused, {count}"
    else:
        then = f"the run is queued again after {run.policy.backoff_s(failed):g} s, {count}"
    quiet = f"unless there is a sign of work {when(due_at, now, at='by ')}, its attempt has stalled"
    return Coming(f"{quiet}: {then}, and its worker is quarantined", due_at, ends=run.cancel is not None)


def _may_stall(standing: Standing) -> bool:
    run = standing.known
    acting = isinstance(run.phase, Running) and isinstance(standing.lease, Held)
    return acting and run.policy.on_quiet == "fail_attempt"


def questions(standing: Standing) -> str:
    """What waits for an answer that only somebody else can give, a sentence each; empty when there is nothing."""
    return " ".join(filter(None, (_of_timeouts(standing), _of_effects(standing))))


def _of_timeouts(standing: Standing) -> str:
    run = standing.known
    kinds = [told.kind for told in unanswered(run).values()]
    if not kinds:
        return ""
    several = "timeouts are" if len(kinds) > 1 else "timeout is"
    return (
        f"Its {' and '.join(kinds)} {several} not answered yet: {_steerers(run)} may let it go on (`jackline extend "
        f"{run.run_id}`) or end it (`jackline abort {run.run_id}`)."
    )


def _of_effects(standing: Standing) -> str:
    """Effects that somebody began and nobody knows to have happened: who may say so, and how."""
    run = standing.known
    keys = [key for key, effect in standing.effects.effects.items() if effect.state == "ambiguous"]
    if not keys:
        return ""
    holder = "its holder or " if isinstance(standing.lease, Held) else ""
    shown = ", ".join(repr(key) for key in keys[:EFFECTS_TOLD]) + _more(keys)
    several = "effects are" if len(keys) > 1 else "effect is"
    return (
        f"Its {several} ambiguous: {shown}; {holder}{_steerers(run)} may find out and say so (`jackline effect "
        f"reconcile {shlex.quote(keys[0])} --run {run.run_id} --done` or `--not-done`)."
    )


def _more(keys: list[str]) -> str:
    return f" and {len(keys) - EFFECTS_TOLD} more" if len(keys) > EFFECTS_TOLD else ""


def _steerers(run: Run) -> str:
    return "an operator" if run.leader_id is None else f"its leader {run.leader_id!r} or an operator"


def by(instant: datetime, now: Moment) -> str:
    """The instant as a bound, and how long until then."""
    return when(instant, now, at="by ")


def when(instant: datetime, now: Moment, at: str = "at ") -> str:
    """The instant, and how long until then."""
    left = (instant - now.wall).total_seconds()
    return f"{at}{instant_of(instant)} ({f'in {_span(left)}' if left > 0 else 'now'})"


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


def instant_of(instant: datetime) -> str:
    """The instant in UTC, to the millisecond."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
