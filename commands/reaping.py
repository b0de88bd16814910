"""What the process manager asks for when a clock about a workspace has run out; each reads again before it decides.

A body that is not attached to within its budget is a fault, told to its run first. A workspace that nobody asserted for
the idle time is to be destroyed, unless its run is open and nobody could have asserted it. Bodies of ``kubernetes`` are
asserted by the service itself for as long as their run is open, so those only begin to age when it ends. The assertion
that a reap is judged by is taken for as long as its append lasts: one that comes meanwhile waits, and is answered by
what came of it.
"""

from commands.desk import Desk, entries_of, system_caller
from commands.judging import judged
from commands.looking import find
from commands.presence import settle_first
from commands.workspaces import standing_on
from domain.grounds import time_out
from domain.placing import reap
from domain.values import Moment
from journal.commit import Decision
from projections.live.needs import idle_due


async def time_out_provisioning(desk: Desk, workspace_id: str) -> bool:
    """Journal that the making of a body used up its budget, if it did; leader gone comes first."""
    card = desk.live.grounds.cards.get(workspace_id)
    if card is None:
        return False
    run = desk.live.cards.get(card.run_id)
    if run is not None:
        await settle_first(desk, run.leader, card.run_id)
    caller = system_caller(card.tenant)

    def decision(now: Moment) -> Decision[None]:
        due = desk.live.grounds.provision_due(workspace_id)
        if due is None or now.mono < due:
            return Decision((), {}, None)
        standing = desk.standing(caller, card.run_id)
        draft = time_out(standing, workspace_id, desk.timers.provisioning_s, desk.remains(standing), now)
        return Decision(entries_of(draft.entries, card.run_id), draft.versions, None)

    done = await desk.execute(caller, (card.run_id,), decision)
    return done.position is not None


async def reap_idle(desk: Desk, workspace_id: str) -> bool:
    """Journal that nobody asserted the workspace for the idle time, if so: its body is to be destroyed."""
    card = desk.live.grounds.cards.get(workspace_id)
    if card is None:
        return False
    caller, taken = system_caller(card.tenant), desk.evidence.grounds.reaps

    def decision(now: Moment) -> Decision[None]:
        taken.put_back(workspace_id)
        asserted = desk.evidence.grounds.last_asserted(workspace_id)
        due = idle_due(desk.live, desk.evidence, workspace_id)
        if due is None or asserted is None or now.mono < due:
            return Decision((), {}, None)
        standing = standing_on(desk, caller, find(desk, caller, workspace_id))
        draft = reap(standing, workspace_id, asserted.at, round(now.mono - asserted.mono, 3), now)
        if draft.entries:
            taken.take(workspace_id)
        return Decision(entries_of(draft.entries, card.run_id), draft.versions, None)

    doing = desk.execute(caller, (card.run_id,), decision)
    done = await judged(desk, card.run_id, doing, lambda: taken.put_back(workspace_id))
    return done.position is not None


async def assert_provisioned(desk: Desk, workspace_id: str) -> bool:
    """The service needs this body as of now, since its run is open; never an end of the matter."""
    card = desk.live.grounds.cards.get(workspace_id)
    if card is not None and card.run_id in desk.live.cards:
        desk.live.grounds.assert_now(card, desk.clock())
    return False
