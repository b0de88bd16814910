"""Jackline's client: an SDK, a worker runtime and a command line for the supervisor of long-running runs.

    with jackline.Client() as client:
        receipt = client.submit({"command": ["make"]})
        run = client.wait(receipt.run_id)

`Client` and `AsyncClient` have the same operations. Errors are `Problem` (the service said no: one class per family of
codes, with the problem's own fields), `Unknown` (nobody answered; never taken for a no), and `Garbled`.
"""

from jackline._async.client import AsyncClient
from jackline._async.leader import AsyncLeader
from jackline._sync.client import Client
from jackline._sync.leader import Leader
from jackline.address import Address, Misplaced
from jackline.errors import (
    EffectFrozen,
    FactsMissed,
    FenceLost,
    Forbidden,
    Garbled,
    IdempotencyMismatch,
    IdentityChanged,
    IncarnationBackwards,
    Invalid,
    JacklineError,
    LeaseHeld,
    LeasesHeld,
    NotFound,
    Problem,
    RateLimited,
    ReadModelBehind,
    ReservationLost,
    RevisionStale,
    RunPaused,
    RunSettled,
    TimeoutAnswered,
    TimeoutUnknown,
    TurnOver,
    TurnUnknown,
    Unauthorised,
    Unknown,
    WorkerUnfit,
    WorkerUnknown,
    WorkspaceOver,
    WorkspaceUnknown,
    WrongPhase,
    WrongState,
)
from jackline.keys import Key, Who
from jackline.lease import Trust
from jackline.models import (
    Answer,
    CancelFilter,
    Cancelled,
    Chunk,
    Claim,
    Effect,
    EffectAnswer,
    Fact,
    Facts,
    Instruction,
    LeaderInfo,
    LeaseRef,
    Page,
    Renewal,
    Reservation,
    Run,
    Settled,
    Submission,
    Submitted,
    Why,
    WorkerInfo,
)
from jackline.retrying import Retry
from jackline.worker.handlers import Worker
from jackline.worker.held import LeaseLost
from jackline.worker.heldrun import EffectAmbiguous, EffectMismatch, HeldRun, Parked
from jackline.worker.standing import HeldWorkspace
from jackline.worker.turns import NotDelivered, Turn
from jackline.workspaces.contract import Observation
from jackline.workspaces.models import Ground, Observed, TurnInfo, Workspace

__version__ = "0.1.0"

__all__ = [
    "Address",
    "Answer",
    "AsyncClient",
    "AsyncLeader",
    "CancelFilter",
    "Cancelled",
    "Chunk",
    "Claim",
    "Client",
    "Effect",
    "EffectAmbiguous",
    "EffectAnswer",
    "EffectFrozen",
    "EffectMismatch",
    "Fact",
    "Facts",
    "FactsMissed",
    "FenceLost",
    "Forbidden",
    "Garbled",
    "Ground",
    "HeldRun",
    "HeldWorkspace",
    "IdempotencyMismatch",
    "IdentityChanged",
    "IncarnationBackwards",
    "Instruction",
    "Invalid",
    "JacklineError",
    "Key",
    "Leader",
    "LeaderInfo",
    "LeaseHeld",
    "LeaseLost",
    "LeaseRef",
    "LeasesHeld",
    "Misplaced",
    "NotDelivered",
    "NotFound",
    "Observation",
    "Observed",
    "Page",
    "Parked",
    "Problem",
    "RateLimited",
    "ReadModelBehind",
    "Renewal",
    "Reservation",
    "ReservationLost",
    "Retry",
    "RevisionStale",
    "Run",
    "RunPaused",
    "RunSettled",
    "Settled",
    "Submission",
    "Submitted",
    "TimeoutAnswered",
    "TimeoutUnknown",
    "Trust",
    "Turn",
    "TurnInfo",
    "TurnOver",
    "TurnUnknown",
    "Unauthorised",
    "Unknown",
    "Who",
    "Why",
    "Worker",
    "WorkerInfo",
    "WorkerUnfit",
    "WorkerUnknown",
    "Workspace",
    "WorkspaceOver",
    "WorkspaceUnknown",
    "WrongPhase",
    "WrongState",
]
