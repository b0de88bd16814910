"""Turns: the exchanges inside an attempt, for workers that have them.

    admit      a prompt is about to be delivered; the turn is held to the incarnation that is known now
    move       the first is the delivery (under the mark that it names, or the admission's); then busy, answer unread
    complete, fail    the holder settles it
    notice     something that the holder has to know is said once for each kind
    give_up    it was not delivered within the admission window

A turn waits from its delivery, without a deadline: every real end has a sign that is watched, and a timer would only be
a guess at how long a slow answer may take. Until then its worker may try again. What a restart does to it is decided in
``domain.restarting``; a turn outside a workspace is outside every watch, and its worker fails it itself.

A turn ends once. Whoever comes second is refused (``turn_over``) with how it ended, or succeeds if that is just what
it wants to say. Turns end silently with their attempt.
"""

import msgspec

from domain.claiming import LimitReached
from domain.placing import refuse_over
from domain.refusal import Refusal
from domain.restarting import end_by_restart, passed
from domain.run import Running
from domain.standing import Presented, RunDraft, Standing, holder, refuse_unless
from domain.turn_facts import (
    NoticeKind,
    TurnAdmitted,
    TurnCompleted,
    TurnFailed,
    TurnMoved,
    TurnNoticed,
    TurnState,
)
from domain.turns_state import Over, Turn, Turns
from domain.values import Moment, Value
from domain.workspace import Workspace
from domain.workspace_facts import LastSeen
from domain.workspace_refusals import MESSAGE_MAX_CHARS, REASON_MAX_CHARS, WrongPhase, check_message, check_text

TURNS_OPEN_MAX = 256
"""Turns of one attempt that have not ended."""
ADMISSION_WINDOW = "admission_window"
HARNESS_RESTARTED = "harness_restarted"


class TurnUnknown(Refusal):
    """The attempt has no such turn, or forgot it long after its end."""

    code = "turn_unknown"

    def __init__(self, turn: int) -> None:
        super().__init__(f"the attempt has no turn {turn}", turn=turn)


class TurnOver(Refusal):
    """The turn has ended, and not in the way that the command wants."""

    code = "turn_over"

    def __init__(self, over: Over) -> None:
        super().__init__(
            f"turn {over.turn} is {over.ended}{f' ({over.code})' if over.code else ''} and does not change",
            turn=over.turn, ended=over.ended, reason=over.code, told=over.message,
        )  # fmt: skip


class Move(Value, frozen=True, kw_only=True):
    """Where the turn is now, and the mark that it was delivered under if it is not the admission's."""

    state: TurnState
    incarnation: int | None = None


class Failure(Value, frozen=True, kw_only=True):
    """Why the holder gives a turn up."""

    code: str
    message: str | None = None


def admit(standing: Standing, presented: Presented, workspace_id: str | None, now: Moment) -> RunDraft:
    """Facts that follow when the holder is about to deliver a prompt; the turn's number is the run's next.

    Raises:
        FenceLost: the fence gives no right to act.
        WrongState: the run is parked.
        WorkspaceUnknown, WorkspaceOver, WrongPhase: the run does not stand on that workspace.
        LimitReached: ``TURNS_OPEN_MAX`` turns have not ended.
    """
    lease, run = holder(standing, presented), standing.known
    refuse_unless(standing, "running", met=isinstance(run.phase, Running))
    if len(run.turns.open) >= TURNS_OPEN_MAX:
        raise LimitReached(limit="turns_open_max", value=TURNS_OPEN_MAX, subject=standing.run_id)
    draft = standing.draft()
    draft.on_run(
        TurnAdmitted(
            turn=run.turns.last + 1,
            fence=lease.fence,
            workspace_id=workspace_id,
            incarnation=None if workspace_id is None else _standing_on(standing, workspace_id).incarnation,
            admitted_at=now.wall,
        )
    )
    return draft


def _standing_on(standing: Standing, workspace_id: str) -> Workspace:
    workspace = standing.workspace(workspace_id)
    refuse_over(workspace)
    if workspace.phase != "running":
        raise WrongPhase(workspace_id=workspace_id, phase=workspace.phase, wanted="running")
    return workspace


def move(standing: Standing, presented: Presented, number: int, command: Move, now: Moment) -> RunDraft:
    """Facts that follow when the prompt was delivered, or the turn got further; none when it is there already.

    A delivery under a mark that has been passed ends the turn in the same decision.

    Raises:
        FenceLost: the fence gives no right to act.
        TurnUnknown, TurnOver: there is no such turn, or it has ended.
    """
    _ = holder(standing, presented)
    draft, turn = standing.draft(), _open(standing.known.turns, number)
    if turn.state == command.state or (turn.delivered and command.state == "waiting"):
        return draft  # a delivery is said once: a repeat must not take back what came of it
    mark = turn.mark
    if not turn.delivered and mark is not None and command.incarnation is not None:
        mark = command.incarnation
    moved = draft.on_run(TurnMoved(turn=number, state=command.state, incarnation=mark, moved_at=now.wall))
    workspace = _of(standing, turn)
    if workspace is not None and passed(mark, workspace.incarnation):
        late = msgspec.structs.replace(turn, state=command.state)
        end_by_restart(draft, late, workspace.harness, (moved,), now)
    return draft


def complete(standing: Standing, presented: Presented, number: int, now: Moment) -> RunDraft:
    """Facts that follow when the answer was taken; none when it was before.

    Raises:
        FenceLost: the fence gives no right to act.
        TurnUnknown, TurnOver: there is no such turn, or it ended otherwise.
    """
    _ = holder(standing, presented)
    draft, over = standing.draft(), _over(standing.known.turns, number)
    if over is None:
        draft.on_run(TurnCompleted(turn=number, completed_at=now.wall))
    elif over.ended != "completed":
        raise TurnOver(over)
    return draft


def fail(standing: Standing, presented: Presented, number: int, why: Failure, now: Moment) -> RunDraft:
    """Facts that follow when the holder gives a turn up; none when it failed in just that way.

    Raises:
        FenceLost: the fence gives no right to act.
        TurnUnknown, TurnOver: there is no such turn, or it ended otherwise.
        InvalidCommand: a text is outside its bounds.
    """
    _ = holder(standing, presented)
    check_text("code", why.code, REASON_MAX_CHARS)
    check_message(why.message)
    message = "Turn lost (Harness restarted)" if why == Failure(code=HARNESS_RESTARTED) else why.message
    draft, over = standing.draft(), _over(standing.known.turns, number)
    if over is None:
        draft.on_run(TurnFailed(turn=number, code=why.code, message=message, by="holder", cites=(), failed_at=now.wall))
    elif (over.ended, over.code, over.message) != ("failed", why.code, message):
        raise TurnOver(over)
    return draft


def notice(standing: Standing, presented: Presented, number: int, kind: NoticeKind, now: Moment) -> RunDraft:
    """Facts that follow when something is to be said of a turn; none when it was said before."""
    _ = holder(standing, presented)
    draft, turns = standing.draft(), standing.known.turns
    _ = _over(turns, number)
    if (number, kind) not in turns.notices:
        draft.on_run(TurnNoticed(turn=number, kind=kind, noticed_at=now.wall))
    return draft


def give_up(standing: Standing, number: int, last: LastSeen, now: Moment) -> RunDraft:
    """Facts that follow when a turn was not delivered within its window; none when it was, or has ended."""
    draft, turn = standing.draft(), standing.known.turns.open.get(number)
    if turn is None or turn.delivered:
        return draft
    workspace = _of(standing, turn)
    harness = None if workspace is None else workspace.harness
    told = last.reason or last.message or (None if harness is None else harness.reason or harness.message)
    message = "not delivered within the admission window" + (f" ({told})" if told else "")
    draft.on_run(
        TurnFailed(
            turn=number, code=ADMISSION_WINDOW, message=message[:MESSAGE_MAX_CHARS], by="window", cites=(),
            failed_at=now.wall,
        )
    )  # fmt: skip
    return draft


def _of(standing: Standing, turn: Turn) -> Workspace | None:
    return next((each for each in standing.workspaces if each.workspace_id == turn.workspace_id), None)


def _over(turns: Turns, number: int) -> Over | None:
    """How the turn ended; None while it is under way."""
    if number in turns.open:
        return None
    for over in turns.over:
        if over.turn == number:
            return over
    raise TurnUnknown(number)


def _open(turns: Turns, number: int) -> Turn:
    over = _over(turns, number)
    if over is not None:
        raise TurnOver(over)
    return turns.open[number]
