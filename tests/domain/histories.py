"""What was told to runs, and how each fact changes what is remembered of them.

The histories visit every fact of a run, its lease, its effects and its workspaces; most of them could be decided.
"""

from typing import Any, Literal

import msgspec

from domain.run_facts import (
    InputProvided,
    PartialSalvaged,
    RunClosed,
    RunReassigned,
    StopReported,
    TimeoutAcknowledged,
    Work,
    WorkerTimeout,
)
from domain.turn_facts import TurnCut, TurnNoticed
from domain.values import NULL
from domain.workspace_facts import ContinuityRestored, HarnessRestarted, ProvisionFaulted, WorkspaceAttached
from tests.domain.facts import (
    LEADER,
    bound,
    cancel_asked,
    closed,
    completed,
    effect_failed,
    ended,
    expired,
    granted,
    handed_back,
    intended,
    judged,
    lapsed,
    made_ambiguous,
    parked,
    pause_asked,
    paused,
    reconciled,
    reserved,
    resumed,
    settled,
    sliced,
    submitted,
    unreserved,
)
from tests.domain.ground_facts import (
    BODY,
    admitted,
    attached,
    destroyed,
    faulted,
    ground,
    lost,
    moved,
    placed,
    provisioning,
    reaped,
    released,
    restarted,
    turn_completed,
    turn_failed,
    unknown,
    waits,
)
from tests.domain.kit import Given, On, Told, flat, given, noon, run_citation, text
from tests.domain.ripe import given_more
from tests.domain.written import plain


def quiet(kind: Literal["inactivity", "total"] = "inactivity") -> WorkerTimeout:
    """A clock ran out while ada worked."""
    since = noon().isoformat()
    return WorkerTimeout(kind=kind, fence=1, worker="ada", marks={"since": since, "after_s": 300.0}, cites=())


def acknowledged(answer: Literal["extend", "abort"] = "extend") -> TimeoutAcknowledged:
    """The leader answered it."""
    return TimeoutAcknowledged(
        timeout=run_citation(3), kind="inactivity", answer=answer, by=LEADER, acknowledged_at=noon(15)
    )


_held = (submitted(), granted())
TOLD: dict[str, tuple[Told, ...]] = {
    "nothing": _held,
    "quiet": (*_held, quiet()),
    "too long": (*_held, quiet("total")),
    "quiet answered": (*_held, quiet(), acknowledged()),
    "too long answered": (
        *_held,
        quiet("total"),
        TimeoutAcknowledged(
            timeout=run_citation(3), kind="total", answer="extend", by=LEADER, acknowledged_at=noon(15)
        ),
    ),
    "quiet and queued": (*_held, quiet(), handed_back()),
    "quiet and kept": (*_held, quiet(), parked(kept=True)),
    "quiet and waiting": (*_held, quiet(), parked()),
    "quiet and closed": (*_held, quiet(), closed()),
    "quiet and judged": (submitted(verdict_by="leader"), granted(), quiet(), closed("succeeded", "waiting_verdict")),
    "quiet with effects": (*_held, intended(), quiet()),
}

HISTORIES: dict[str, tuple[Told, ...]] = {
    "asked and answered": (
        *_held,
        parked(),
        InputProvided(
            question=text("which one?"), answer=text(7), by=LEADER, fence=None, due_at=noon(20), provided_at=noon(20)
        ),
        granted("bob", 2, 21),
        closed(fence=2, result={"ok": True}),
    ),
    "asked and answered with the lease kept": (
        *_held,
        parked(kept=True),
        InputProvided(
            question=text("which one?"), answer=text(7), by=LEADER, fence=1, due_at=None, provided_at=noon(20)
        ),
        parked("waiting_peer", kept=True),
        resumed(None, 1),
    ),
    "reserved, given back, reserved, lapsed, reserved and bound": (
        submitted(),
        reserved(),
        unreserved(),
        reserved(fence=2),
        lapsed(2),
        reserved(fence=3),
        bound(fence=3),
    ),
    "silent, then another": (*_held, expired(), granted("bob", 2, 61), handed_back(2)),
    "detached": (*_held, expired(detached=True)),
    "sliced": (submitted(), granted(slice_ends=30), sliced(), expired(failed=0)),
    "a slice of nobody": (submitted(), sliced()),
    "failed, failed again and aborted": (
        submitted(max_attempts=2),
        granted(),
        closed("failed", "queued", failed=1),
        granted("bob", 2, 30),
        closed("failed", "failed", 2, failed=2),
    ),
    "closed late": (
        *_held,
        expired(),
        RunClosed(
            attempt=1,
            fence=1,
            outcome="failed",
            state="queued",
            result=NULL,
            error=text("late"),
            failed_attempts=1,
            due_at=noon(90),
            late=True,
            work=Work(),
            closed_at=noon(62),
        ),
    ),
    "judged": (submitted(verdict_by="leader"), granted(), closed("succeeded", "waiting_verdict", result=1), judged()),
    "judged otherwise": (
        submitted(verdict_by="leader"),
        granted(),
        closed("succeeded", "waiting_verdict"),
        judged("failed", result=2),
    ),
    "paused and resumed": (submitted(), paused(), resumed(30), granted(), pause_asked(), parked("paused")),
    "paused while held": (*_held, pause_asked(), parked("paused", kept=True), resumed(None, 1)),
    "cancelled while held, and reported": (
        *_held,
        cancel_asked(),
        ended("revoked"),
        settled("cancelled", "cancelled", worker="ada"),
        StopReported(fence=1, worker="ada", report="saved"),
    ),
    "salvaged and lost": (
        *_held,
        PartialSalvaged(fence=1, partial=text({"half": 1})),
        settled("lost", "process_ended_unknown", worker="ada"),
    ),
    "aborted after an absence": (
        *_held,
        WorkerTimeout(
            kind="leader_gone",
            fence=1,
            worker="ada",
            marks={"zero_since": noon(-60).isoformat(), "grace_s": 60.0},
            cites=("presence-default:lea@7",),
        ),
    ),
    "quiet, extended, quiet, aborted": (
        *_held,
        quiet(),
        acknowledged(),
        quiet("total"),
        TimeoutAcknowledged(timeout=run_citation(5), kind="total", answer="abort", by=LEADER, acknowledged_at=noon(16)),
    ),
    "an answer to what was never told": (*_held, acknowledged()),
    "reassigned": (*_held, RunReassigned(leader_id="leo", revision=2, by=LEADER, reassigned_at=noon(3))),
    "stalled": (*_held, quiet(), ended("stalled", failed=1, due=40)),
    "failed while it was cancelled": (
        *_held,
        cancel_asked(),
        RunClosed(
            attempt=1,
            fence=1,
            outcome="failed",
            state=None,
            result=NULL,
            error=text("boom"),
            failed_attempts=1,
            due_at=None,
            late=False,
            work=Work(),
            closed_at=noon(12),
        ),
        settled("cancelled", "cancelled"),
    ),
    "parked, and nobody said that its attempt had ended": (*_held, *parked()[-1:]),
    "a body with versions": (
        *_held,
        placed(),
        WorkspaceAttached(identity=BODY, incarnation=0, details={"node": "n1"}, version="v1", attached_at=noon(4)),
        HarnessRestarted(incarnation=1, reason="Error", message="boom", exit_code=2, version="v2", at=noon(5)),
        restarted(2),
    ),
    "a body that never came, and why": (
        *_held,
        placed("kubernetes"),
        ProvisionFaulted(reason="PodFailed", message="no such image", cites=("run-r1@3",), faulted_at=noon(6)),
    ),
    "effects": (
        *_held,
        intended(command_id="c1"),
        completed(),
        intended("wire"),
        effect_failed("wire"),
        intended("wire", 2),
        intended("call"),
        made_ambiguous("wire", "call", fence=2),
        reconciled("done", "wire", 4),
        reconciled("not_done", "call"),
        completed("never begun"),
    ),
    "turns": (
        *_held,
        ground(),
        admitted(),
        moved(),
        moved("busy"),
        turn_completed(),
        admitted(2),
        moved(turn=2),
        turn_failed(2),
        admitted(3),
        TurnNoticed(turn=3, kind="memory_limit", noticed_at=noon(13)),
        TurnCut(turn=3, reason="Error", cites=("workspace-w1@3",), cut_at=noon(14)),
        moved(turn=9),
        turn_completed(9),
        admitted(4),
        ended("parked"),
    ),
    "turns that begin backwards": (*_held, admitted(5), admitted(2), handed_back()),
    "a pod": (
        *_held,
        placed("kubernetes", scope="east"),
        waits(),
        provisioning(),
        provisioning(BODY),
        unknown("boot", 4),
        ContinuityRestored(unknown_since=noon(4), restored_at=noon(5)),
        attached(),
        restarted(2),
        restarted(3, None),
        unknown(),
        lost("PodFailed", pending=True),
        released(),
        destroyed(),
    ),
    "a pod that never came": (*_held, placed("kubernetes"), waits("quota", None), provisioning(), faulted(), reaped()),
    "a directory kept": (*_held, ground(), released(keep=True), reaped(), destroyed()),
    "a directory released before it was": (*_held, placed(), released(), destroyed()),
    "a body seen again under a newer life": (
        *_held,
        ground("process"),
        unknown(),
        attached(incarnation=2),
    ),
}


def history(*facts: Told) -> str:
    """What each fact changes in how the run is remembered, and the versions at the end."""
    so_far, lines = given(), []
    for fact in flat(facts):
        after = given_more(so_far, fact)
        lines.append(f"{type(fact.fact if isinstance(fact, On) else fact).__name__}\n{changes(so_far, after)}")
        so_far = after
    return "".join([*lines, f"versions {plain(so_far.standing.versions)}\n"])


def changes(before: Given, after: Given) -> str:
    """The fields that differ, with their new values."""
    old, new = remembered(before), remembered(after)
    return "".join(f"  {name} = {plain(value)}\n" for name, value in new.items() if old.get(name) != value)


def remembered(run: Given) -> dict[str, Any]:
    """Every field of the run, its lease, its effects and its workspaces, beside the submission and the versions."""
    standing = run.standing
    parts: dict[str, msgspec.Struct] = {"run": standing.run, "lease": standing.lease, "effects": standing.effects}
    parts |= {f"workspace {each.workspace_id}": each for each in standing.workspaces}
    fields: dict[str, Any] = {}
    for part, value in parts.items():
        fields[f"{part} is"] = type(value).__name__
        fields |= {
            f"{part}.{field}": getattr(value, field)
            for field in value.__struct_fields__
            if field not in ("version", "submission")
        }
    return fields
