"""Observing one workspace: what was seen of its body is told, and what follows is decided in one append.

However many tell of one end at once, there is one loss: decisions about one run follow one another, each is guarded by
the workspace, its run and its lease, and the second finds a workspace that has ended. Leader gone comes before a loss:
where the leader's absence has outlasted its grace at that very instant, that is settled first.

What was heard of the body is remembered only once it was accepted, and only as far as it is about this very body.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from commands.desk import Caller, Desk
from commands.looking import find
from commands.presence import settle_first
from commands.workspaces import on_workspace, require_concern
from domain.observing import ENDS, Observation, words_after
from domain.observing import observe as observed
from domain.standing import RunDraft, Standing
from domain.values import Moment
from domain.workspace_facts import LastSeen
from journal.commit import Done


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
    read: Callable[[], Mapping[str, int]] = dict,
) -> Done[dict[str, Any]]:
    """Carry out what follows from these observations; ``read`` are the guards of whoever reports, or its refusal."""
    run_id = find(desk, caller, workspace_id).placed.run_id
    card = desk.live.cards.get(run_id)
    if card is not None and any(each.kind in ENDS for each in observations):
        await settle_first(desk, card.leader, run_id)

    words: list[LastSeen] = []

    def decide(standing: Standing, now: Moment) -> RunDraft:
        last, rest = desk.evidence.grounds.words(workspace_id), (desk.remains(standing), now)
        draft = observed(standing, workspace_id, observations, last, rest)
        words[:] = [words_after(standing.workspace(workspace_id), observations, last)]
        return draft

    done = await on_workspace(desk, caller, workspace_id, decide, read)
    ground = desk.live.grounds.cards.get(workspace_id)
    if words and ground is not None and not ground.over:
        desk.evidence.grounds.heard(workspace_id, words[0])
    return done
