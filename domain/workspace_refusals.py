"""What is refused about a workspace: the bounds of what may be said of it, and the refusals with their values.

All bounds are inclusive. A refusal changes nothing: what was reported in the same breath is not recorded either.
"""

from domain.refusal import InvalidCommand, Refusal

WORKSPACES_MAX = 64
"""Workspaces of one open run that are not over."""
IDENTITY_MAX_CHARS = 512
MESSAGE_MAX_CHARS = 4_000
REASON_MAX_CHARS = 64
VERSION_MAX_CHARS = 128
DETAILS_MAX = 32
DETAIL_MAX_CHARS = 256
SCOPE_MAX_CHARS = 256
INCARNATION_MAX = 2**31 - 1


def check_text(field: str, value: str | None, most: int) -> None:
    """Refuse a text that is empty or longer than ``most`` characters; null is none."""
    if value is not None and not 1 <= len(value) <= most:
        raise InvalidCommand(field=field, value=value[: most + 1], limit=f"1 to {most} characters")


def check_message(value: str | None) -> None:
    """Refuse a message of more than ``MESSAGE_MAX_CHARS`` characters; an empty one is as good as none."""
    if value:
        check_text("message", value, MESSAGE_MAX_CHARS)


class WorkspaceUnknown(Refusal):
    """No workspace of the caller's tenant, or of the named run, has this id."""

    code = "workspace_unknown"

    def __init__(self, workspace_id: str) -> None:
        super().__init__(f"no workspace has the id {workspace_id!r}", workspace_id=workspace_id)


class WorkspaceOver(Refusal):
    """The workspace has ended and is given no second body; a fresh one is a new workspace."""

    code = "workspace_over"

    def __init__(self, *, workspace_id: str, phase: str, reason: str | None) -> None:
        super().__init__(
            f"workspace {workspace_id!r} is {phase}{f' ({reason})' if reason else ''}, and is given no second body",
            workspace_id=workspace_id, phase=phase, reason=reason,
        )  # fmt: skip


class WrongPhase(Refusal):
    """The command has no meaning in the phase that the workspace is in."""

    code = "wrong_phase"

    def __init__(self, *, workspace_id: str, phase: str, wanted: str) -> None:
        super().__init__(
            f"workspace {workspace_id!r} is {phase}, and the command is for one that is {wanted}",
            workspace_id=workspace_id, phase=phase, wanted=wanted,
        )  # fmt: skip


class IdentityChanged(Refusal):
    """Another body than the attached one was named; only an observation of kind ``replaced`` may say so."""

    code = "identity_changed"

    def __init__(self, *, workspace_id: str, presented: str, attached: str) -> None:
        super().__init__(
            f"workspace {workspace_id!r} stands on {attached!r}, not on {presented!r}",
            workspace_id=workspace_id, presented=presented, attached=attached,
        )  # fmt: skip


class IncarnationBackwards(Refusal):
    """The harness cannot have started fewer times than was seen before."""

    code = "incarnation_backwards"

    def __init__(self, *, workspace_id: str, presented: int, current: int) -> None:
        super().__init__(
            f"workspace {workspace_id!r} is at incarnation {current}; {presented} is behind it",
            workspace_id=workspace_id, presented=presented, current=current,
        )  # fmt: skip
