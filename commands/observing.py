"""Observing one workspace: what was seen of its body is told, and what follows is decided in one append.

However many tell of one end at once, there is one loss: decisions about one run follow one another, each is guarded by
the workspace, its run and its lease, and the second finds a workspace that has ended. Leader gone comes before a loss:
where the leader's absence has outlasted its grace at that very instant, that is settled first.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from commands.desk import Caller, Desk, entries_of, merged
from commands.looking import document, find
from commands.presence import settle_first
from commands.workspaces import require_concern, standing_on
from domain.observing import ENDS, Observation
from domain.observing import observe as observed
from domain.values import Moment
from journal.commit import Decision, Done


async def observe(
    desk: Desk, caller: Caller, workspace_id: str, observations: Sequence[Observation]
) -> Done[dict[str, Any]]:
    """What was seen of one workspace, in order, all of it or nothing; the workspace as it is afterwards.

    Raises:
        WorkspaceUnknown: there is none under this id.
        WorkspaceOver: a body is said to be alive that ended before.
        IdentityChanged, IncarnationBackwards: what is said cannot be about this body.
    """
    require_concern(desk, caller, find(desk, caller, workspace_id), "report on this workspace")
    return await tell(desk, caller, workspace_id, observations)


async def tell(
    desk: Desk,
    caller: Caller,
    workspace_id: str,
    observations: Sequence[Observation],
    read: Mapping[str, int] | None = None,
) -> Done[dict[str, Any]]:
    """Carry out what follows from these observations; ``read`` are guards of whoever reports."""
    run_id = find(desk, caller, workspace_id).placed.run_id
    card = desk.live.cards.get(run_id)
    if card is not None and any(each.kind in ENDS for each in observations):
        await settle_first(desk, card.leader, run_id)

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        standing = standing_on(desk, caller, find(desk, caller, workspace_id))
        last, rest = desk.evidence.grounds.words(workspace_id), (desk.remains(standing), now)
        draft = observed(standing, workspace_id, observations, last, rest)
        after = desk.after(standing, draft).workspace(workspace_id)
        return Decision(entries_of(draft.entries, run_id), merged([draft.versions, read or {}]), document(desk, after))

    done = await desk.execute(caller, (run_id,), decision)
    if workspace_id in desk.live.grounds.cards:
        for each in observations:
            desk.evidence.grounds.heard(workspace_id, each.reason, each.message)
    return done
