"""`why` for people: the screen that one opens first.

The first line is the answer: the state, and for a run that did not succeed what went wrong, in words. Below are the
facts that it follows from, wrapped rather than cut, what was last heard of the worker, the clocks that run, what the
run stands on, and what comes next. `--json` has all of it as the service says it.

Units: seconds, and instants in local time. Failure: none; what is not there is not told.
"""

import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from jackline.cli import show
from jackline.clock import wall
from jackline.models import TERMINAL, Fact, Why
from jackline.reasons import OpenTurn, RefusedWrite, RunClock

ENDED_BADLY = frozenset({"failed", "lost", "aborted"})
VALUE_WIDTH = 400  # characters of one value of a fact that are told
INDENT = " " * 10
STANDING = frozenset({"placing", "provisioning", "attaching", "running"})
MARKS = (
    ("last_activity_at", "last sign of work"),
    ("quiet_since", "quiet since"),
    ("unknown_since", "unknown since"),
)


def why(run_id: str, answer: Why, at: datetime | None = None) -> None:
    """Why a run is in its state, or was; `at` is what \"ago\" counts back from: of the past, the instant shown."""
    now = at or (None if answer.as_of is None else answer.as_of.recorded_at) or wall()
    head = Text.assemble((run_id, "bold"), " is ", show.state(answer.state), f", fence {answer.fence}")
    if answer.state in ENDED_BADLY and (wrong := what_went_wrong(answer.because)):
        head.append(f": {wrong}")
    show.put(head)
    if answer.because:
        show.put(Text("because", style="bold"))
        for fact in answer.because:
            show.put(_fact(fact))
    evidence = answer.evidence if isinstance(answer.evidence, Mapping) else {}
    told = heard(evidence, now)
    if told:
        show.put(Text.assemble(("evidence  ", "bold"), ", ".join(told)))
    for one in answer.refused:
        show.put(Text.assemble(("refused  ", "bold"), _refused(one, now)))
    _ahead(answer, now)
    show.as_of(answer.as_of, "; the evidence is what a fact told then" if told else "")


def _ahead(answer: Why, now: datetime) -> None:
    """The clocks that run, its turns, what the run stands on, what a queued run waits for, and what comes next."""
    for clock in answer.clocks:
        times = f"{_subject(clock)}since {show.moment(clock.since)}, due {show.moment(clock.due_at)}"
        show.put(Text.assemble((f"{show.safe(clock.name)}  ", "bold"), times))
    for turn in answer.turns:
        show.put(Text.assemble(("turn  ", "bold"), _turn(turn)))
    for ground in answer.workspaces:
        if isinstance(ground, Mapping):
            stands = answer.state not in TERMINAL and ground.get("phase") in STANDING and not ground.get("teardown")
            show.put(Text.assemble(("stands on  " if stands else "stood on  ", "bold"), _ground(ground, now)))
    if answer.queue is not None:
        place = f"{answer.queue.ahead} due before it, {answer.queue.depth} queued in {show.safe(answer.queue.name)}"
        show.put(Text.assemble(("queue  ", "bold"), place))
    for block in answer.waiting_for:
        words = show.safe(f"{block.because}; until {block.until}")
        show.put(Text.assemble((f"{show.safe(block.code)}  ", "bold"), words))
    if answer.next:
        show.put(Text.assemble(("next  ", "bold"), show.safe(answer.next)))


def what_went_wrong(because: Sequence[Fact]) -> str:
    """The latest error that the facts tell, else the latest reason; empty when there is neither."""
    told = [fact.data for fact in reversed(because) if isinstance(fact.data, Mapping)]
    errors = (_words(data.get("error")) for data in told)
    reasons = (data.get("reason") for data in told)
    return next(filter(None, errors), "") or show.brief(next(filter(None, reasons), ""), VALUE_WIDTH)


def heard(evidence: Mapping[str, Any], now: datetime) -> list[str]:
    """What was last heard of the worker and of its work, in words."""
    told = []
    if (last := _ago(evidence.get("last_renewed_at"), now)) is not None:
        told.append(f"last heard {last}")
    if isinstance(times := evidence.get("renewals"), int):
        told.append(f"renewed {times} time{'' if times == 1 else 's'}")
    if evidence.get("detached"):
        told.append(f"the worker's connection broke {_ago(evidence.get('detached_at'), now) or ''}".rstrip())
    marks = {mark for mark, _ in MARKS if evidence.get(mark) is not None}
    if evidence.get("quiet_since") == evidence.get("last_activity_at"):
        marks.discard("quiet_since")  # quiet since the last sign of work: said already
    told += [f"{name} {when}" for mark, name in MARKS if mark in marks and (when := _ago(evidence[mark], now))]
    return told


def _subject(clock: RunClock) -> str:
    """What of the run a clock is about, where it is not the run as a whole."""
    if clock.workspace_id is not None:
        return f"workspace {show.safe(clock.workspace_id)}, "
    return "" if clock.turn is None else f"turn {clock.turn}, "


def _turn(turn: OpenTurn) -> str:
    """A turn under way: which, how far, since when, and the incarnation that it is held to."""
    held = "" if turn.mark is None else f" at incarnation {turn.mark}"
    where = "" if turn.workspace_id is None else f", in workspace {show.safe(turn.workspace_id)}{held}"
    return f"{turn.turn}, {show.safe(turn.state)} since {show.moment(turn.since)}{where}"


def _ground(ground: Mapping[str, Any], now: datetime) -> str:
    """What the run stands on or stood on, and for how long nobody has seen it."""
    ended = ground.get("lost") or ground.get("fault") or {}
    code = "" if ended.get("exit_code") is None else f", exit {ended['exit_code']}"
    more = f": {ended['message']}" if ended.get("message") else "" if code else ": nothing more is known"
    reason = f" ({ended['reason']}{code}{more})" if ended else ""
    age_s = ground.get("unknown_age_s")
    unknown = f", unknown for {age_s:.0f} s" if isinstance(age_s, int | float) else ""
    if (seen := _ago(ground.get("seen_at"), now)) is not None:
        unknown += f", last seen {seen}"
    told = f"{ground.get('workspace_id')}, {ground.get('provider')}, {ground.get('phase')}{reason}{unknown}"
    return show.safe(show.brief(told, VALUE_WIDTH))


def _words(error: Any) -> str:
    """An error in words: its message, else its code, else what it is."""
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code") or dict(error)
    return show.brief(error, VALUE_WIDTH)


def _ago(instant: Any, now: datetime) -> str | None:
    """How long ago an instant was that evidence may carry; None when it is none."""
    try:
        return show.ago(datetime.fromisoformat(instant), now)
    except (TypeError, ValueError):
        return None


def _refused(one: RefusedWrite, now: datetime) -> str:
    """Writes that were refused for their fence, in words."""
    who = show.safe(one.worker or one.principal)
    times = "once" if one.count == 1 else f"{one.count} times"
    last = f", last {told}" if (told := show.ago(one.last_at, now)) else ""
    return f"a write of {who} under fence {one.fence} {times}{last}: {show.safe(one.reason)}"


def _fact(fact: Fact) -> Text:
    """A fact: where, when and what, and after it, wrapped, what it says."""
    text = f"  {show.fact_head(fact)} {show.fact_words(fact, VALUE_WIDTH)}"
    lines = textwrap.wrap(text, max(40, show.out.width), subsequent_indent=INDENT, break_on_hyphens=False)
    return Text("\n".join(lines))
