"""Last words: the reason and the message that were heard of a body, which a loss gets that comes without any.

They are words about this body, in this life of what runs inside it. So they begin anew when the run comes to stand on
the body (what was said while it was made is about the making) and at every restart, whose own words tell how the last
life ended; a reason that is new comes with its own message or with none, and a message that comes alone goes with the
reason before it only where that tells of the body, as those of losses do. What was said of another body, or was
refused, is never among them.
"""

from domain.workspace import Workspace
from domain.workspace_facts import LOSS_REASONS, LastSeen
from domain.workspace_refusals import MESSAGE_MAX_CHARS

NO_WORDS = LastSeen()


def joined(before: LastSeen, reason: str | None, message: str | None) -> LastSeen:
    """The last words once these were heard too; no reason gets a message that was not said of it."""
    if reason is None and message is not None:
        return LastSeen(reason=before.reason if before.reason in LOSS_REASONS else None, message=message)
    if reason is None or reason == before.reason:
        return LastSeen(reason=before.reason, message=message or before.message)
    return LastSeen(reason=reason, message=message)


def words_before(workspace: Workspace, heard: LastSeen) -> LastSeen:
    """What was heard of the body so far; else how its last life ended, as the journal has it."""
    if heard != NO_WORDS or workspace.harness is None:
        return heard
    return LastSeen(reason=workspace.harness.reason, message=workspace.harness.message)


def as_loss(words: LastSeen) -> LastSeen:
    """The words as those of a loss: a reason that is none of a loss's is told in the message."""
    if words.reason is None or words.reason in LOSS_REASONS:
        return words
    told = words.reason if words.message is None else f"{words.reason}: {words.message}"[:MESSAGE_MAX_CHARS]
    return LastSeen(message=told)
