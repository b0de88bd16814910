"""The facts of a turn: one exchange inside an attempt, in the stream of its run.

A turn is numbered within its run and belongs to the attempt under its ``fence``. ``incarnation`` is its *mark*: how
often the harness inside its workspace had started when the turn was admitted, or when it was delivered. A turn without
a workspace has no mark. It ends once: completed, failed or cut. Instants are aware UTC and are for people.
"""

from datetime import datetime
from typing import Literal

from domain.values import Fact

TurnState = Literal["waiting", "busy", "answer_unread"]
NoticeKind = Literal["conversation_new", "memory_limit"]
FailedBy = Literal["holder", "restart", "window"]


class TurnAdmitted(Fact, frozen=True, kw_only=True):
    """The holder is about to deliver a prompt, to what runs inside the workspace under this mark."""

    turn: int
    fence: int
    workspace_id: str | None
    incarnation: int | None
    admitted_at: datetime


class TurnMoved(Fact, frozen=True, kw_only=True):
    """The first is the delivery: from then on a restart ends the turn. ``incarnation`` is its mark from now on."""

    turn: int
    state: TurnState
    incarnation: int | None
    moved_at: datetime


class TurnCompleted(Fact, frozen=True, kw_only=True):
    """An answer came and was taken."""

    turn: int
    completed_at: datetime


class TurnFailed(Fact, frozen=True, kw_only=True):
    """No answer will come: the holder says so, the harness was restarted, or it was not delivered in its window."""

    turn: int
    code: str
    message: str | None
    by: FailedBy
    cites: tuple[str, ...]
    failed_at: datetime


class TurnCut(Fact, frozen=True, kw_only=True):
    """The harness was restarted while the turn was busy or its answer unread: it ends, and nothing faults."""

    turn: int
    reason: str
    cites: tuple[str, ...]
    cut_at: datetime


class TurnNoticed(Fact, frozen=True, kw_only=True):
    """Something that the holder has to know about the turn was said, once for each kind."""

    turn: int
    kind: NoticeKind
    noticed_at: datetime


TurnFact = TurnAdmitted | TurnMoved | TurnCompleted | TurnFailed | TurnCut | TurnNoticed
