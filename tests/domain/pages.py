"""The pages of ``tests.domain.written``: which command meets which situations."""

from collections.abc import Callable, Mapping
from functools import partial

from domain import placing
from domain.turn_facts import TurnNoticed
from domain.workspace_facts import LastSeen
from tests.domain import commands, ground_facts
from tests.domain.facts import (
    cancel_asked,
    expired,
    granted,
    parked,
    submitted,
)
from tests.domain.ground_facts import (
    BODY,
    admitted,
    ground,
    lost,
    moved,
    restarted,
    seen,
    turn_completed,
    turn_failed,
    unknown,
)
from tests.domain.ground_situations import COMMANDS as GROUND_COMMANDS
from tests.domain.histories import HISTORIES, TOLD, history
from tests.domain.kit import Decide, Told, given, noon, run_citation, text
from tests.domain.limits import BOUNDS_PAGE, SUBMISSION_PAGE
from tests.domain.others import (
    EFFECT_PAGE,
    LEADER_PAGE,
    QUEUE_PAGE,
    WORKER_PAGE,
)
from tests.domain.refusals import ours, refusal
from tests.domain.ripe import (
    LOSSES,
    REMAINS,
    on_a_pending_loss,
    on_a_run,
    on_a_run_without_ground,
    on_ground,
    on_later_attempts,
    on_unborn_ground,
)
from tests.domain.run_commands import COMMANDS as RUN_COMMANDS
from tests.domain.written import section

TURNED: dict[str, tuple[Told, ...]] = {
    "none": (),
    "admitted": (admitted(),),
    "waiting": (admitted(), moved()),
    "busy": (admitted(), moved("busy")),
    "answer unread": (admitted(), moved("answer_unread")),
    "completed": (admitted(), moved(), turn_completed()),
    "failed": (admitted(), moved(), turn_failed()),
    "outside": (admitted(workspace_id=None, mark=None),),
    "waiting outside": (admitted(workspace_id=None, mark=None), moved(mark=None)),
    "admitted under an older life": (admitted(), restarted(2)),
    "told of": (admitted(), TurnNoticed(turn=1, kind="conversation_new", noticed_at=noon(11))),
    "parked": (admitted(), moved(), parked(kept=True)),
    "expired": (admitted(), moved(), expired()),
    "unknown": (admitted(), moved(), unknown()),
    "lost": (admitted(), moved(), lost("PodFailed", pending=True)),
}

TURN_COMMANDS: dict[str, Decide] = {
    "admit": ground_facts.admit(),
    "admit outside": ground_facts.admit(None),
    "admit unknown": ground_facts.admit("w9"),
    "deliver": ground_facts.move(),
    "deliver under an older life": ground_facts.move(incarnation=0),
    "deliver under a newer life": ground_facts.move(incarnation=3),
    "busy": ground_facts.move("busy"),
    "answer unread": ground_facts.move("answer_unread"),
    "complete": ground_facts.complete(),
    "complete another": ground_facts.complete(7),
    "fail": ground_facts.fail(),
    "fail otherwise": ground_facts.fail("timeout", None),
    "fail by a restart": ground_facts.fail("harness_restarted", None),
    "notice": ground_facts.notice(),
    "notice memory": ground_facts.notice("memory_limit"),
    "give up": ground_facts.give_up(),
    "give up having heard": ground_facts.give_up(last=LastSeen(reason="Unschedulable")),
    "give up having read": ground_facts.give_up(last=LastSeen(message="no node fits")),
    "restart": ground_facts.observe(seen("harness_restarted", incarnation=2, reason="Error", exit_code=1)),
    "restart by memory": ground_facts.observe(
        seen("harness_restarted", incarnation=3, reason="OOMKilled", message="killed", exit_code=137, version="v9")
    ),
    "attach again": ground_facts.attach(incarnation=2),
    "expire": commands.expire(),
    "close": commands.close(),
}


def on_turns(decide: Decide) -> Callable[[], str]:
    """What a command does to an attempt with turns, 20 seconds after noon."""

    def make() -> str:
        held = (submitted(on_workspace_lost="retry_fresh"), granted(), ground("kubernetes"))
        return section(decide, {name: (given(*held, *facts), 20.0) for name, facts in TURNED.items()})

    return make


def on_timeouts(decide: Decide) -> Callable[[], str]:
    """What a command does to a run that was told something by a clock, 20 seconds after noon."""

    def make() -> str:
        return section(decide, {name: (given(*facts).having(REMAINS), 20.0) for name, facts in TOLD.items()})

    return make


RUN_PAGE: dict[str, Callable[[], str]] = {
    **{name: on_a_run(decide) for name, (_, decide) in RUN_COMMANDS.items()},
    "leader gone: park": on_a_run(commands.leader_gone(), on_leader_gone="park"),
    "leader gone: keep": on_a_run(commands.leader_gone(), on_leader_gone="keep"),
    "tell: fail the attempt": on_a_run(commands.tell(), on_quiet="fail_attempt"),
    "tell of the whole": on_a_run(commands.tell("total")),
    "cancel at once": on_a_run(commands.cancel(0)),
    "verdict failed": on_a_run(commands.verdict("failed", {"why": "wrong"})),
    "close with a result": on_a_run(commands.close(result={"ok": True})),
    "close failed with an error": on_a_run(commands.close("failed", result=1, error={"code": "boom"})),
    "close failed to a leader": on_a_run(commands.close("failed"), verdict_by="leader"),
    "close for good to a leader": on_a_run(commands.close("failed", retryable=False), verdict_by="leader"),
    "close to a leader": on_a_run(commands.close(), verdict_by="leader"),
    "close by somebody else": on_a_run(commands.close(by="bob")),
    "close without a fence": on_a_run(commands.close(fence=None)),
    "write without a fence": on_a_run(commands.write(None)),
    "write without a fence where none is needed": on_a_run(commands.write(None, required=False)),
    "write without a fence by somebody else": on_a_run(commands.write(None, "bob", required=False)),
    "write by somebody else": on_a_run(commands.write(by="bob")),
    "write under a newer fence": on_a_run(commands.write(2)),
    "claim under slices": on_a_run(commands.claim(), max_hold_s=30.0, lease_ttl_s=5.0),
    "bind under slices": on_a_run(commands.bind(), max_hold_s=30.0, lease_ttl_s=5.0),
    "bind by another token": on_a_run(commands.bind("t9")),
    "cancel another reservation": on_a_run(commands.cancel_reservation("t9")),
    "lapse another reservation": on_a_run(commands.lapse("t9")),
    "report stop by somebody else": on_a_run(commands.report_stop("ignored", by="bob")),
    "reassign to the same": on_a_run(commands.reassign("lea")),
    "reassign behind": on_a_run(commands.reassign(revision=0)),
    "reassign ahead": on_a_run(commands.reassign(revision=7)),
    "park for a peer": on_a_run(commands.park("waiting_peer")),
    "park keeping a question": on_a_run(commands.park(keep=True)),
}

BARE_PAGE: dict[str, Callable[[], str]] = {
    name: on_a_run_without_ground(decide) for name, (_, decide) in RUN_COMMANDS.items()
}

LATER_PAGE: dict[str, Callable[[], str]] = {
    name: on_later_attempts(decide)
    for name, decide in {
        "close failed": commands.close("failed", fence=2),
        "expire": commands.expire(),
        "hand back": commands.hand_back(2),
        "claim": commands.claim("ada"),
        "fault": ground_facts.fault(),
        "time out": ground_facts.time_out(),
        "lose": ground_facts.lose("Deleted"),
    }.items()
} | {
    "tell: fail the attempt": on_later_attempts(commands.tell(), on_quiet="fail_attempt"),
    "fault while it keeps a question": on_later_attempts(ground_facts.fault(), verdict_by="leader"),
}

UNBORN_PAGE: dict[str, Callable[[], str]] = {
    name: on_unborn_ground(decide)
    for name, decide in {
        "close": commands.close(),
        "close for good": commands.close("failed", retryable=False),
        "cancel": commands.cancel(),
        "verdict": commands.verdict(),
        "leader gone": commands.leader_gone(),
        "place": ground_facts.place(),
        "admit": ground_facts.admit(),
    }.items()
}

LOSS_PAGE: dict[str, Callable[[], str]] = {
    f"{reason}, {policy}": on_a_run(ground_facts.lose(reason, exit_code=3), on_workspace_lost=policy)
    for reason in LOSSES
    for policy in ("settle_lost", "retry_fresh", "park")
} | {
    f"{name} while a loss is pending, {policy}": on_a_pending_loss(decide, policy)
    for name, (_, decide) in RUN_COMMANDS.items()
    for policy in ("settle_lost", "retry_fresh", "park")
}

GROUND_PAGE: dict[str, Callable[[], str]] = {
    **{name: on_ground(decide) for name, (_, decide) in GROUND_COMMANDS.items()},
    "place": on_ground(ground_facts.place(provider="kubernetes", scope="east", spec=text({"image": "a"}))),
    "place by somebody else": on_ground(ground_facts.place(by="bob")),
    "expect": on_ground(lambda standing, remains, now: placing.expect(standing, "w1", now)),
    "exited without a code": on_ground(ground_facts.observe(seen("ended", reason="ProcessExited"))),
    "gone by nobody's reason": on_ground(ground_facts.observe(seen("gone", reason="whatever", message="so it was"))),
    "dropped and restarted": on_ground(
        ground_facts.observe(
            "watch_dropped",
            seen("harness_restarted", identity=BODY, incarnation=4, message="again", version="v4"),
            seen("present", incarnation=4, reason="Running", message="well"),
        )
    ),
    "an unknown workspace": on_ground(ground_facts.observe("gone", workspace_id="w9")),
    "gone after something was heard": on_ground(
        ground_facts.observe(seen("gone"), last=LastSeen(reason="Evicted", message="low on memory"))
    ),
    "time out after a minute": on_ground(ground_facts.time_out(budget_s=60)),
    "fault with a message": on_ground(ground_facts.fault("PodFailed", "no such image")),
    "present with a version": on_ground(
        ground_facts.observe(seen("present", identity=BODY, incarnation=3, reason="Ready", message="up", version="v3"))
    ),
    "gone with a version": on_ground(ground_facts.observe(seen("gone", identity=BODY, version="v7"))),
    "replaced by itself": on_ground(ground_facts.observe(seen("replaced", identity=BODY))),
    "restarted and gone": on_ground(
        ground_facts.observe(seen("harness_restarted", reason="Error", message="boom", exit_code=2), "gone")
    ),
    "heard, seen and gone": on_ground(
        ground_facts.observe(seen("present", reason="Evicted", message="low"), seen("present", message="lower"), "gone")
    ),
    "restarted and present at the first life": on_ground(
        ground_facts.observe("harness_restarted", seen("present", incarnation=0))
    ),
    "present at the second life and restarted": on_ground(
        ground_facts.observe(seen("present", incarnation=1), seen("harness_restarted", message="again"))
    ),
    "attach with a version": on_ground(ground_facts.attach(incarnation=2, version="v5", details={"node": "n1"})),
    "admit": on_ground(ground_facts.admit()),
    "close": on_ground(commands.close()),
    "cancel due": on_ground(commands.cancel_due(), cancel_asked()),
    "expire": on_ground(commands.expire()),
}

TURN_PAGE = {name: on_turns(decide) for name, decide in TURN_COMMANDS.items()}

TIMEOUT_PAGE = {
    "tell while a loss is pending": on_a_pending_loss(commands.tell(), "settle_lost", on_quiet="fail_attempt"),
    "tell while a loss is pending, fresh": on_a_pending_loss(commands.tell(), "retry_fresh", on_quiet="fail_attempt"),
    "tell while a loss is pending, parking": on_a_pending_loss(commands.tell(), "park", on_quiet="fail_attempt"),
    "extend": on_timeouts(commands.acknowledge(timeout=run_citation(3))),
    "abort": on_timeouts(commands.acknowledge("abort", timeout=run_citation(3))),
    "extend another": on_timeouts(commands.acknowledge(timeout=run_citation(9))),
    "tell": on_timeouts(commands.tell()),
    "tell of the whole": on_timeouts(commands.tell("total")),
}

PAGES: dict[str, Mapping[str, Callable[[], str]]] = {
    "runs": RUN_PAGE,
    "bare-runs": BARE_PAGE,
    "later-attempts": LATER_PAGE,
    "unborn-grounds": UNBORN_PAGE,
    "losses": LOSS_PAGE,
    "grounds": GROUND_PAGE,
    "turns": TURN_PAGE,
    "timeouts": TIMEOUT_PAGE,
    "workers": WORKER_PAGE,
    "leaders": LEADER_PAGE,
    "queues": QUEUE_PAGE,
    "effects": EFFECT_PAGE,
    "submissions": SUBMISSION_PAGE,
    "bounds": BOUNDS_PAGE,
    "refusals": {kind.__name__: partial(refusal, kind) for kind in ours()},
    "histories": {name: partial(history, *facts) for name, facts in HISTORIES.items()},
}
