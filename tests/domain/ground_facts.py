"""Facts of workspaces and turns with the values that most tests do not care about, and the commands on them.

A workspace is w1, stands on the body ``body-1`` under incarnation 1, was placed by ada under fence 1, and is watched by
its holder unless the test says otherwise. Instants are seconds after noon.
"""

from collections.abc import Sequence
from typing import Any

from domain import grounds, observing, placing, turns
from domain.observing import Kind, Observation
from domain.placing import Attach, Place
from domain.releasing import Release
from domain.standing import Remains, RunDraft, Standing
from domain.turn_facts import NoticeKind, TurnAdmitted, TurnCompleted, TurnFailed, TurnMoved, TurnState
from domain.turns import Failure, Move
from domain.values import NULL, Fact, Moment
from domain.workspace_facts import (
    ContinuityUnknown,
    ExitSeen,
    HarnessRestarted,
    LastSeen,
    LossReason,
    Provider,
    ProvisionFaulted,
    UnknownCause,
    WaitsOn,
    WorkspaceAttached,
    WorkspaceDestroyed,
    WorkspaceLost,
    WorkspacePlaced,
    WorkspaceProvisioning,
    WorkspaceReaped,
    WorkspaceReleased,
    WorkspaceWaiting,
)
from tests.domain.commands import presented
from tests.domain.kit import GROUND, RUN, Decide, noon

BODY = "body-1"


def placed(
    provider: Provider = "directory", workspace_id: str = GROUND, fence: int = 1, scope: str | None = None
) -> WorkspacePlaced:
    """The run is to stand on this."""
    return WorkspacePlaced(
        workspace_id=workspace_id,
        run_id=RUN,
        tenant="default",
        provider=provider,
        scope=scope,
        spec=NULL,
        fence=fence,
        worker="ada",
        placed_at=noon(1),
    )


def waits(on: WaitsOn = "node", message: str | None = "no room") -> WorkspaceWaiting:
    """There is no room yet."""
    return WorkspaceWaiting(on=on, message=message, since=noon(2))


def provisioning(identity: str | None = None) -> WorkspaceProvisioning:
    """The body is being made, or exists."""
    return WorkspaceProvisioning(identity=identity, since=noon(3))


def attached(identity: str = BODY, incarnation: int = 1) -> WorkspaceAttached:
    """The run stands on the body."""
    return WorkspaceAttached(identity=identity, incarnation=incarnation, details={}, attached_at=noon(4))


def ground(provider: Provider = "directory", **placing_of: Any) -> list[Fact]:
    """A workspace that the run stands on."""
    return [placed(provider, **placing_of), attached()]


def restarted(incarnation: int = 2, reason: str | None = "Error", exit_code: int | None = 1) -> HarnessRestarted:
    """What runs inside was started again."""
    return HarnessRestarted(
        incarnation=incarnation, reason=reason, message=None, exit_code=exit_code, version="v2", at=noon(5)
    )


def unknown(cause: UnknownCause = "watch_dropped", since: float = 5) -> ContinuityUnknown:
    """Nobody sees the body."""
    return ContinuityUnknown(since=noon(since), cause=cause)


def lost(reason: LossReason = "Deleted", fence: int = 1, at: float = 6, *, pending: bool = False) -> WorkspaceLost:
    """The body is gone."""
    return WorkspaceLost(
        identity=BODY,
        reason=reason,
        message=None,
        exit=ExitSeen(code=3) if pending else None,
        incarnation=1,
        fence=fence,
        pending=pending,
        version=None,
        lost_at=noon(at),
    )


def faulted() -> ProvisionFaulted:
    """The body did not come to be."""
    return ProvisionFaulted(reason="PodFailed", message=None, cites=(), faulted_at=noon(6))


def released(*, keep: bool = False) -> WorkspaceReleased:
    """Nobody needs it, or it is kept."""
    return WorkspaceReleased(keep=keep, by="lea", cause="asked", released_at=noon(7))


def reaped() -> WorkspaceReaped:
    """Nobody asserted it."""
    return WorkspaceReaped(last_asserted_at=noon(), idle_s=1800, reaped_at=noon(8))


def destroyed() -> WorkspaceDestroyed:
    """There is no body."""
    return WorkspaceDestroyed(cause="gone", destroyed_at=noon(9))


def admitted(turn: int = 1, workspace_id: str | None = GROUND, mark: int | None = 1, fence: int = 1) -> TurnAdmitted:
    """A turn is about to be delivered."""
    return TurnAdmitted(turn=turn, fence=fence, workspace_id=workspace_id, incarnation=mark, admitted_at=noon(10))


def moved(state: TurnState = "waiting", turn: int = 1, mark: int | None = 1) -> TurnMoved:
    """It was delivered, or got further."""
    return TurnMoved(turn=turn, state=state, incarnation=mark, moved_at=noon(11))


def turn_completed(turn: int = 1) -> TurnCompleted:
    """Its answer was taken."""
    return TurnCompleted(turn=turn, completed_at=noon(12))


def turn_failed(turn: int = 1, code: str = "refused", message: str | None = "no") -> TurnFailed:
    """Its holder gave it up."""
    return TurnFailed(turn=turn, code=code, message=message, by="holder", cites=(), failed_at=noon(12))


def place(fence: int | None = 1, workspace_id: str = "w2", by: str | None = None, **command: Any) -> Decide:
    """The holder wants a workspace."""
    wish = Place(workspace_id=workspace_id, **command)
    return lambda standing, remains, now: placing.place(standing, presented(fence, by), wish, now)


def wait_for(on: WaitsOn = "node", message: str | None = "no room", workspace_id: str = GROUND) -> Decide:
    """There is no room."""
    return lambda standing, remains, now: placing.wait_for(standing, workspace_id, on, message, now)


def provision(identity: str | None = None, workspace_id: str = GROUND) -> Decide:
    """The body is being made, or exists."""
    return lambda standing, remains, now: placing.provision(standing, workspace_id, identity, now)


def attach(identity: str = BODY, incarnation: int = 1, workspace_id: str = GROUND, **more: Any) -> Decide:
    """The run stands on the body."""
    command = Attach(identity=identity, incarnation=incarnation, **more)
    return lambda standing, remains, now: placing.attach(standing, workspace_id, command, now)


def unsee(cause: UnknownCause = "observer_gone", workspace_id: str = GROUND) -> Decide:
    """Nobody sees it any more."""
    return lambda standing, remains, now: placing.unsee(standing, workspace_id, cause, now.wall)


def release(*, keep: bool = False, workspace_id: str = GROUND) -> Decide:
    """Nobody needs it any more, or it is to be kept."""
    command = Release(keep=keep, by="lea", cause="asked")
    return lambda standing, remains, now: placing.release(standing, workspace_id, command, now)


def reap(workspace_id: str = GROUND) -> Decide:
    """Nobody asserted it for the idle time."""
    return lambda standing, remains, now: placing.reap(standing, workspace_id, noon(), 1800, now)


def say_gone(workspace_id: str = GROUND) -> Decide:
    """Somebody looked: there is no body any more."""
    return lambda standing, remains, now: placing.say_gone(standing, workspace_id, now)


def time_out(workspace_id: str = GROUND, budget_s: float = 120) -> Decide:
    """Its budget is used up."""
    return lambda standing, remains, now: grounds.time_out(standing, workspace_id, budget_s, remains, now)


def fault(reason: str = "ImagePullBackOff", message: str | None = None, workspace_id: str = GROUND) -> Decide:
    """Its provider cannot make it."""
    why = grounds.Fault(reason=reason, message=message)
    return lambda standing, remains, now: grounds.fault(standing, workspace_id, why, remains, now)


def seen(kind: Kind, **more: Any) -> Observation:
    """One thing that was seen."""
    return Observation(kind=kind, **more)


def observe(
    *observations: Observation | Kind, workspace_id: str = GROUND, last: LastSeen = LastSeen()  # noqa: B008
) -> Decide:  # fmt: skip
    """What watchers report at once of one workspace."""
    told: Sequence[Observation] = [
        each if isinstance(each, Observation) else Observation(kind=each) for each in observations
    ]

    def decide(standing: Standing, remains: Remains, now: Moment) -> RunDraft:
        return observing.observe(standing, workspace_id, told, last, (remains, now))

    return decide


def lose(reason: LossReason | None = None, workspace_id: str = GROUND, exit_code: int | None = None) -> Decide:
    """The body is seen to be gone."""
    return observe(seen("gone", reason=reason, exit_code=exit_code), workspace_id=workspace_id)


def admit(workspace_id: str | None = GROUND, fence: int | None = 1) -> Decide:
    """The holder is about to deliver a prompt."""
    return lambda standing, remains, now: turns.admit(standing, presented(fence), workspace_id, now)


def move(
    state: TurnState = "waiting", incarnation: int | None = None, turn: int = 1, fence: int | None = 1
) -> Decide:  # fmt: skip
    """The prompt was delivered, or the turn got further."""
    command = Move(state=state, incarnation=incarnation)
    return lambda standing, remains, now: turns.move(standing, presented(fence), turn, command, now)


def complete(turn: int = 1, fence: int | None = 1) -> Decide:
    """The answer was taken."""
    return lambda standing, remains, now: turns.complete(standing, presented(fence), turn, now)


def fail(code: str = "refused", message: str | None = "no", turn: int = 1, fence: int | None = 1) -> Decide:
    """The holder gives the turn up."""
    why = Failure(code=code, message=message)
    return lambda standing, remains, now: turns.fail(standing, presented(fence), turn, why, now)


def notice(kind: NoticeKind = "conversation_new", turn: int = 1, fence: int | None = 1) -> Decide:
    """Something is to be said of the turn."""
    return lambda standing, remains, now: turns.notice(standing, presented(fence), turn, kind, now)


def give_up(turn: int = 1, last: LastSeen = LastSeen()) -> Decide:  # noqa: B008
    """The admission window is over."""
    return lambda standing, remains, now: turns.give_up(standing, turn, last, now)
