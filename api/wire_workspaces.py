"""What is answered about workspaces, what was observed of them, and turns.

Together with ``api/wire.py`` this is the response vocabulary; the same rules hold.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from api.facts import Shown

Phase = Literal["placing", "provisioning", "attaching", "running", "teardown", "destroyed", "lost", "provision_failed"]
Provider = Literal["external", "directory", "process", "kubernetes"]


class Lost(Shown):
    """Why the attached body is gone; ``pending`` while its holder's close may still decide what that means."""

    reason: str
    message: str | None
    exit_code: int | None
    pending: bool
    at: datetime


class Fault(Shown):
    """Why the body never came to be."""

    reason: str
    message: str | None
    at: datetime


class Waiting(Shown):
    """What the making of the body waits for, without a limit."""

    on: Literal["node", "quota"]
    message: str | None
    since: datetime


class Harness(Shown):
    """How the last life inside the body ended."""

    reason: str | None
    message: str | None
    exit_code: int | None


class Ground(Shown):
    """A workspace as its run shows it."""

    workspace_id: str
    provider: Provider
    scope: str | None
    phase: Phase
    identity: str | None
    incarnation: int
    lost: Lost | None
    fault: Fault | None
    waiting: Waiting | None
    unknown_since: datetime | None
    teardown: bool
    destroyed_at: datetime | None


class Workspace(Ground):
    """What a run stands on; ``teardown`` says that there may be a body which is to be destroyed."""

    run_id: str
    spec: Any
    details: dict[str, str]
    unknown_cause: Literal["watch_dropped", "observer_gone", "holder_gone", "boot"] | None
    harness: Harness | None
    placed_at: datetime
    attached_at: datetime | None
    last_asserted_at: datetime | None = Field(description="null: not since the service was started")
    to_assert: bool
    position: int


class WorkspacePage(Shown):
    """A page of workspaces, in the order in which they were placed."""

    items: list[Workspace]
    next_cursor: str | None
    position: int


class Placed(Shown):
    """A new workspace."""

    workspace_id: str
    phase: Phase


class Asserted(Shown):
    """The workspace is kept; how long without the next assertion, and within which time to make it."""

    workspace_id: str
    idle_reap_s: float
    next_within_s: float


class Refused(Shown):
    """An observation that was not taken, and why."""

    workspace_id: str
    code: str
    detail: str


class Observed(Shown):
    """How many observations were taken, and how many meant nothing (unknown, foreign or ended workspaces, repeats).

    ``absent``: attached workspaces of the scope that the list did not name, and that are gone.
    """

    applied: int
    ignored: int
    refused: list[Refused]
    absent: int


class Turn(Shown):
    """A turn that was admitted, and the incarnation that it is held to."""

    turn: int
    incarnation: int | None


class TurnShown(Shown):
    """How a turn is."""

    turn: int
    state: Literal["admitted", "waiting", "busy", "answer_unread", "completed", "failed", "cut"]
    incarnation: int | None
    code: str | None
    message: str | None
