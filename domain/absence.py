"""What a leader's absence means for one of its runs, once it has outlasted the run's grace.

Evidence first: the run is told (``WorkerTimeout`` of kind ``leader_gone``, citing the presence facts), then its own
policy decides. *cancel* settles it: nobody rendered a verdict, so it is ``cancelled``, never ``succeeded`` and never
``lost``. *park* pauses it, with its lease revoked; only a resume brings it back (a cancel that was asked for before
settles it instead). *keep* tells and does nothing else. A loss that its holder was still asked about loses its holder
with a park: where the run is ``lost`` with its ground, it is so now, since there is nothing to come back to.
Each run is told once for one absence. A run that has ended meanwhile is skipped: terminal wins.

Settling and the fence come in one append; the worker is told after it. Who is asked here is nobody: unlike a cancel,
an absence has no principal. Both share ``settling.end_into``.
"""

from datetime import datetime

import msgspec

from domain.grounds import judge, pending_loss
from domain.lease import LeaseRevoked, Vacant, holder_of
from domain.run import Parked, Run, Settled, WaitingVerdict
from domain.run_facts import RunParked, WorkerTimeout
from domain.settling import Settlement, end_into
from domain.standing import Ending, Remains, RunDraft, Standing, end_attempt
from domain.values import NULL, Moment, Value


class Absence(Value, frozen=True, kw_only=True):
    """An absence that has outlasted the grace, and the presence facts that say so."""

    leader_id: str
    zero_since: datetime
    grace_s: float
    cites: tuple[str, ...]


def leader_gone(standing: Standing, absence: Absence, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow for one run of a leader that is gone; none when it has ended or was told already."""
    draft, run = standing.draft(), standing.known
    mark = absence.zero_since.isoformat()
    if isinstance(run.phase, Settled) or run.leader_id != absence.leader_id or run.absence == mark:
        return draft
    told = draft.on_run(
        WorkerTimeout(
            kind="leader_gone",
            fence=standing.lease.fence,
            worker=holder_of(standing.lease),
            marks={"leader_id": absence.leader_id, "zero_since": mark, "grace_s": absence.grace_s},
            cites=absence.cites,
        )
    )
    match run.policy.on_leader_gone:
        case "cancel":
            cites = (*absence.cites, told)
            end_into(draft, Settlement(state="cancelled", reason="leader_gone", cites=cites), remains, now)
        case "park" if run.cancel is not None:
            cites = (run.cancel.citation, told)
            end_into(draft, Settlement(state="cancelled", reason="cancelled", cites=cites), remains, now)
        case "park":
            _park(draft, run, told, remains, now)
        case "keep":
            pass
    return draft


def _park(draft: RunDraft, run: Run, told: str, remains: Remains, now: Moment) -> None:
    lease = draft.standing.lease
    paused = isinstance(run.phase, Parked) and run.phase.kind == "paused"
    if isinstance(run.phase, WaitingVerdict) or (paused and isinstance(lease, Vacant)):
        return
    broken = pending_loss(draft.standing)
    cites = (told,) if broken is None else (told, *broken.cites)
    if broken is not None and run.policy.on_workspace_lost == "settle_lost":
        return judge(draft, msgspec.structs.replace(broken, cites=cites), remains, now)
    if run.acting is not None:
        end_attempt(draft, Ending(outcome="revoked", cites=cites), remains.work, now)
    if not isinstance(lease, Vacant):
        draft.on_lease(LeaseRevoked(fence=lease.fence, worker=lease.worker, cause="leader_gone"))
    if not paused:
        question = run.phase.question if isinstance(run.phase, Parked) else NULL
        draft.on_run(
            RunParked(kind="paused", question=question, lease_kept=False, reason="leader_gone", parked_at=now.wall)
        )
