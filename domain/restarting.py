"""A harness restart: it ends the turns that wait for the harness, not the workspace and not its conversations.

Every turn is held to a mark: the incarnation that it was admitted or delivered under. When the incarnation passes it,
a waiting turn fails at once, by name of what ended the last life: ``memory limit``, or ``Turn lost (Harness restarted:
<reason>, exit <code>)``. A turn that is busy, or whose answer is unread, has what it needs: it is *cut* and nothing
faults. One that is not delivered yet is retried by its worker within the admission window. A turn ends once: whatever
comes first, the restart or its settlement, stands.
"""

from domain.run import Run
from domain.standing import RunDraft
from domain.turn_facts import TurnCut, TurnFailed
from domain.turns_state import Turn
from domain.values import Moment, Value
from domain.workspace import Harness, Workspace
from domain.workspace_facts import HarnessRestarted

MEMORY_LIMIT = "memory_limit"
TURN_LOST = "turn_lost"
OUT_OF_MEMORY = "OOMKilled"


class Restart(Value, frozen=True, kw_only=True):
    """What was seen of a restart: the count after it, and how the last life ended."""

    incarnation: int
    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None
    version: str | None = None


def restart_into(draft: RunDraft, workspace: Workspace, restart: Restart, now: Moment) -> None:
    """Put down that the harness was restarted, and the end of every turn whose mark that passes."""
    restarted = draft.on_workspace(
        workspace.workspace_id,
        HarnessRestarted(
            incarnation=restart.incarnation,
            reason=restart.reason,
            message=restart.message,
            exit_code=restart.exit_code,
            version=restart.version,
            at=now.wall,
        ),
    )
    run = draft.standing.run
    if not isinstance(run, Run):
        return
    harness = Harness(reason=restart.reason, message=restart.message, exit_code=restart.exit_code)
    for turn in run.turns.open.values():
        if turn.workspace_id == workspace.workspace_id and turn.delivered and passed(turn.mark, restart.incarnation):
            end_by_restart(draft, turn, harness, (restarted,), now)


def passed(mark: int | None, incarnation: int) -> bool:
    """Whether the harness was started again since the mark was taken."""
    return mark is not None and incarnation > mark


def end_by_restart(draft: RunDraft, turn: Turn, harness: Harness | None, cites: tuple[str, ...], now: Moment) -> None:
    """Put down that a delivered turn ended with the harness: failed when it waited, else cut."""
    if turn.state in ("busy", "answer_unread"):
        draft.on_run(TurnCut(turn=turn.turn, reason=restart_text(harness), cites=cites, cut_at=now.wall))
        return
    by_memory = harness is not None and harness.reason == OUT_OF_MEMORY
    draft.on_run(
        TurnFailed(
            turn=turn.turn,
            code=MEMORY_LIMIT if by_memory else TURN_LOST,
            message="memory limit" if by_memory else f"Turn lost ({restart_text(harness)})",
            by="restart",
            cites=cites,
            failed_at=now.wall,
        )
    )


def restart_text(harness: Harness | None) -> str:
    """What happened, for people: the end of the harness's last life as far as it was seen."""
    told = [] if harness is None or harness.reason is None else [harness.reason]
    if harness is not None and harness.exit_code is not None:
        told.append(f"exit {harness.exit_code}")
    ended = f": {', '.join(told)}" if told else ""
    return f"Harness restarted{ended}"
