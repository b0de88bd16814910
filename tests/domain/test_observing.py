"""What watchers report: put together, decided once, bounded; a dropped watch is never a loss."""

from typing import Any

import pytest

from domain.observing import EXIT_CODE_MAX, Observation, check, put_together
from domain.refusal import InvalidCommand
from domain.run_facts import AttemptEnded
from domain.turn_facts import TurnFailed
from domain.workspace_facts import (
    LOSS_REASONS,
    ContinuityRestored,
    ContinuityUnknown,
    HarnessRestarted,
    LastSeen,
    WorkspaceAttached,
    WorkspaceLost,
    WorkspaceProvisioning,
)
from domain.workspace_refusals import (
    IDENTITY_MAX_CHARS,
    INCARNATION_MAX,
    MESSAGE_MAX_CHARS,
    REASON_MAX_CHARS,
    VERSION_MAX_CHARS,
    IdentityChanged,
    IncarnationBackwards,
    WorkspaceOver,
    WorkspaceUnknown,
)
from tests.domain.facts import granted, submitted
from tests.domain.ground_facts import (
    BODY,
    admitted,
    attached,
    ground,
    lose,
    lost,
    moved,
    observe,
    placed,
    reaped,
    released,
    restarted,
    seen,
    unknown,
)
from tests.domain.kit import GROUND, Given, given, noon


def standing(*facts: Any) -> Given:
    """A run that ada acts for, on one directory, under a policy that goes on after a loss."""
    return given(submitted(on_workspace_lost="retry_fresh"), granted(), ground(), *facts)


@pytest.mark.origin("C9", "R14", "H14")
def test_a_dropped_watch_is_unknown_since_then_once_and_never_a_loss() -> None:
    after = standing().when(observe("watch_dropped"), at=20).then(ContinuityUnknown)

    assert ("running", noon(20)) == (after.ground().phase, after.ground().unknown_since)
    after.when(observe("watch_dropped"), at=30).then_nothing()


@pytest.mark.origin("C9", "C29", "R14")
@pytest.mark.parametrize(
    "report",
    [("present",), ("synced",), ("present", "synced", "watch_dropped"), ("synced", "watch_dropped", "present")],
)
def test_unknown_goes_on_until_the_body_was_seen_in_a_complete_list(report: tuple[Any, ...]) -> None:
    standing(unknown()).when(observe(*report), at=20).then_nothing()


@pytest.mark.origin("C9", "C29", "R14")
@pytest.mark.parametrize(
    "report", [("present", "synced"), ("synced", "present"), ("watch_dropped", "synced", "harness_restarted")]
)
def test_a_complete_list_with_the_body_ends_the_unknown_and_says_since_when_it_was(report: tuple[Any, ...]) -> None:
    outcome = standing(unknown(since=5)).when(observe(*report), at=20)

    assert ContinuityRestored(unknown_since=noon(5), restored_at=noon(20)) == outcome.fact(ContinuityRestored)
    assert outcome.after.ground().unknown_since is None


@pytest.mark.origin("C9", "C36")
def test_a_body_that_ended_while_nobody_looked_is_lost_as_soon_as_somebody_does() -> None:
    after = standing(unknown("boot")).when(observe(seen("gone", reason="PodDeleted")), at=20).after

    assert ("lost", None) == (after.ground().phase, after.ground().unknown_since)


@pytest.mark.origin("C3", "C7", "R12")
def test_another_body_under_the_same_name_is_refused_until_somebody_says_that_it_replaced_this_one() -> None:
    refusal = standing().when(observe(seen("present", identity="body-2"))).then_refused(IdentityChanged)

    assert ("body-2", BODY) == (refusal.presented, refusal.attached)
    outcome = standing().when(observe(seen("replaced", identity="body-2")))
    assert ("Deleted", BODY) == (outcome.fact(WorkspaceLost).reason, outcome.fact(WorkspaceLost).identity)
    assert BODY == outcome.after.ground().identity


@pytest.mark.origin("R12")
def test_the_end_of_the_old_body_is_told_though_the_new_one_is_in_the_same_report() -> None:
    report = (seen("present", identity="body-2"), seen("gone", identity=BODY, reason="PodDeleted"))

    for order in (report, report[::-1]):
        assert "lost" == standing().when(observe(*order)).after.ground().phase


def test_the_end_of_another_body_says_nothing_about_this_one() -> None:
    standing().when(observe(seen("gone", identity="body-2"))).then_nothing()


def test_a_body_is_not_replaced_by_itself() -> None:
    refusal = standing().when(observe(seen("replaced", identity=BODY))).then_refused(InvalidCommand)

    assert "identity" == refusal.field


@pytest.mark.origin("C10", "C29")
@pytest.mark.parametrize(("kind", "reason"), [("gone", "Deleted"), ("replaced", "Deleted"), ("ended", "Terminated")])
def test_a_loss_that_comes_without_a_reason_gets_the_plain_one(kind: Any, reason: str) -> None:
    assert reason == standing().when(observe(kind)).fact(WorkspaceLost).reason


@pytest.mark.origin("C6")
def test_a_loss_without_words_carries_the_last_that_were_seen() -> None:
    last = LastSeen(reason="Evicted", message="The node was low on resource: memory.")
    loss = standing().when(observe("gone", last=last)).fact(WorkspaceLost)
    assert ("Evicted", "The node was low on resource: memory.") == (loss.reason, loss.message)

    own = standing().when(observe(seen("gone", reason="NodeLost", message="taint"), last=last)).fact(WorkspaceLost)
    assert ("NodeLost", "taint") == (own.reason, own.message)


@pytest.mark.origin("C6", "C20")
def test_a_last_reason_that_is_none_of_a_losss_is_told_in_its_message() -> None:
    crashing = standing(restarted(2, reason="OOMKilled", exit_code=137))

    loss = crashing.when(observe("gone")).fact(WorkspaceLost)
    assert ("Deleted", "OOMKilled") == (loss.reason, loss.message)
    last = LastSeen(reason="CrashLoopBackOff", message="back-off 5m0s")
    assert "CrashLoopBackOff: back-off 5m0s" == crashing.when(observe("gone", last=last)).fact(WorkspaceLost).message
    in_it = observe(seen("present", message="draining"), "gone", last=last)
    assert "draining" == crashing.when(in_it).fact(WorkspaceLost).message
    silent = observe(seen("watch_dropped", message="node a does not answer"), seen("gone", reason="NodeLost"))
    assert "node a does not answer" == crashing.when(silent).fact(WorkspaceLost).message


def test_a_message_that_is_put_together_keeps_its_bound() -> None:
    last = LastSeen(reason="Error", message="x" * MESSAGE_MAX_CHARS)
    message = standing().when(observe("gone", last=last)).fact(WorkspaceLost).message

    assert message is not None
    assert MESSAGE_MAX_CHARS == len(message)


@pytest.mark.origin("C20", "C21")
def test_of_a_restart_and_a_loss_in_one_report_the_restart_is_told_first() -> None:
    turn = standing(admitted(), moved())
    report = (seen("harness_restarted", incarnation=3, reason="OOMKilled", exit_code=137), seen("gone"))
    outcome = turn.when(observe(*report))

    kinds = [type(fact) for fact in outcome.facts[:4]]
    assert [HarnessRestarted, TurnFailed, WorkspaceLost, AttemptEnded] == kinds
    assert 3 == outcome.fact(WorkspaceLost).incarnation
    assert "queued" == outcome.after.standing.state


@pytest.mark.origin("C20", "C36")
def test_several_restarts_in_one_report_are_one_fact_with_the_highest_count() -> None:
    report = [seen("harness_restarted", incarnation=n, reason=f"r{n}") for n in (2, 4, 3)]
    restart = standing().when(observe(*report)).fact(HarnessRestarted)

    assert (4, "r4") == (restart.incarnation, restart.reason)


@pytest.mark.parametrize("order", [1, -1])
def test_of_a_sight_and_a_restart_with_one_count_the_restart_keeps_its_reason(order: int) -> None:
    report = [seen("harness_restarted", incarnation=2, reason="OOMKilled"), seen("present", incarnation=2)][::order]
    restart = standing().when(observe(*report)).fact(HarnessRestarted)

    assert (2, "OOMKilled") == (restart.incarnation, restart.reason)


def test_an_incarnation_never_goes_back_unless_the_report_is_the_one_that_was_applied() -> None:
    ahead = standing(restarted(3))
    refusal = ahead.when(observe(seen("present", incarnation=2, version="v1"))).then_refused(IncarnationBackwards)

    assert (2, 3) == (refusal.presented, refusal.current)
    ahead.when(observe(seen("present", incarnation=2, version="v2"))).then_nothing()
    ahead.when(observe(seen("present", incarnation=3))).then_nothing()


def test_a_restart_that_nobody_counted_is_one_more_and_its_repeat_is_none() -> None:
    after = standing().when(observe(seen("harness_restarted", version="v7"))).then(HarnessRestarted)

    assert 2 == after.ground().incarnation
    after.when(observe(seen("harness_restarted", version="v7"))).then_nothing()
    assert 3 == after.when(observe(seen("harness_restarted", version="v8"))).after.ground().incarnation


def test_an_external_body_is_attached_to_by_its_first_sight_also_without_a_name() -> None:
    waiting = given(submitted(), granted(), placed("external"))

    assert (GROUND, 0) == _attached(waiting.when(observe("present")).fact(WorkspaceAttached))
    named = waiting.when(observe(seen("present", identity="vm-7", incarnation=2)))
    assert ("vm-7", 2) == _attached(named.fact(WorkspaceAttached))


def _attached(fact: WorkspaceAttached) -> tuple[str, int]:
    return fact.identity, fact.incarnation


@pytest.mark.parametrize("provider", ["directory", "process", "kubernetes"])
def test_a_body_of_our_own_has_to_be_named_to_be_seen(provider: Any) -> None:
    refusal = given(submitted(), granted(), placed(provider)).when(observe("present")).then_refused(InvalidCommand)

    assert "identity" == refusal.field


@pytest.mark.origin("C30")
def test_a_pod_that_is_there_is_not_attached_to_before_what_is_inside_answered() -> None:
    waiting = given(submitted(), granted(), placed("kubernetes"))
    outcome = waiting.when(observe(seen("present", identity=BODY), "watch_dropped"), at=9)

    after = outcome.then(WorkspaceProvisioning, ContinuityUnknown)
    assert ("attaching", noon(9), noon(9)) == (
        after.ground().phase, after.ground().provisioning_since, after.ground().unknown_since,
    )  # fmt: skip
    after.when(observe(seen("present", identity="body-2"))).then_refused(IdentityChanged)


@pytest.mark.parametrize("over", [lost(), [released()], [reaped()]])
def test_views_and_ends_of_what_is_over_are_satisfied(over: Any) -> None:
    ended = standing(over)

    for kind in ("watch_dropped", "synced"):
        ended.when(observe(kind)).then_nothing()


@pytest.mark.origin("C6")
def test_what_is_lost_does_not_come_back() -> None:
    refusal = standing(lost("Evicted")).when(observe(seen("present", identity=BODY))).then_refused(WorkspaceOver)

    assert ("lost", "Evicted") == (refusal.phase, refusal.reason)
    assert "lost (Evicted)" in refusal.message
    standing(lost("Evicted")).when(observe(seen("harness_restarted", incarnation=9))).then_refused(WorkspaceOver)


def test_an_unknown_workspace_is_refused_by_its_id() -> None:
    refusal = standing().when(observe("gone", workspace_id="w9")).then_refused(WorkspaceUnknown)

    assert "w9" == refusal.workspace_id


def test_one_bad_observation_refuses_the_whole_report() -> None:
    report = observe("gone", seen("present", incarnation=-1))

    assert "incarnation" == standing().when(report).then_refused(InvalidCommand).field


@pytest.mark.parametrize(
    ("field", "most"),
    [
        ("identity", IDENTITY_MAX_CHARS), ("reason", REASON_MAX_CHARS), ("message", MESSAGE_MAX_CHARS),
        ("version", VERSION_MAX_CHARS),
    ],
)  # fmt: skip
def test_a_text_is_accepted_at_its_bound_and_refused_one_past_it(field: str, most: int) -> None:
    check(Observation(kind="present", **{field: "x" * most}))  # type: ignore[arg-type]
    with pytest.raises(InvalidCommand) as refused:
        check(Observation(kind="present", **{field: "x" * (most + 1)}))  # type: ignore[arg-type]

    assert (field, f"1 to {most} characters") == (refused.value.field, refused.value.limit)


def test_an_empty_identity_is_refused_and_an_empty_message_is_not() -> None:
    with pytest.raises(InvalidCommand):
        check(Observation(kind="present", identity=""))
    check(Observation(kind="gone", message=""))


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [("incarnation", 0, INCARNATION_MAX), ("exit_code", -EXIT_CODE_MAX, EXIT_CODE_MAX)],
)
def test_a_number_is_accepted_at_its_bounds_and_refused_one_past_them(field: str, low: int, high: int) -> None:
    for value in (low, high):
        check(Observation(kind="present", **{field: value}))  # type: ignore[arg-type]
    for value in (low - 1, high + 1):
        with pytest.raises(InvalidCommand) as refused:
            check(Observation(kind="present", **{field: value}))  # type: ignore[arg-type]
        assert (field, value) == (refused.value.field, refused.value.value)


@pytest.mark.origin("C10")
def test_the_reason_of_an_end_is_one_of_a_closed_list_which_the_refusal_names() -> None:
    for reason in LOSS_REASONS:
        check(Observation(kind="gone", reason=reason))
    with pytest.raises(InvalidCommand) as refused:
        check(Observation(kind="ended", reason="OOMKilled"))

    assert "PodDeleted" in refused.value.limit
    check(Observation(kind="harness_restarted", reason="OOMKilled"))


def test_a_report_is_put_together_without_regard_to_most_of_its_order() -> None:
    workspace = standing().ground()
    report = [seen("present", identity=BODY), seen("harness_restarted", incarnation=2), seen("synced")]

    forth, back = put_together(workspace, report), put_together(workspace, report[::-1])
    assert (forth.started, forth.restored, forth.end) == (back.started, back.restored, back.end)


@pytest.mark.parametrize(("reason", "told"), [("Evicted", ("Evicted", "boom")), ("Error", ("Deleted", "Error: boom"))])
def test_a_loss_without_words_carries_those_of_the_last_restart(reason: str, told: tuple[str, str]) -> None:
    started_again = seen("harness_restarted", incarnation=2, reason=reason, message="boom")
    followed = given(submitted(), granted(), ground()).when(observe(started_again), at=20).after.when(lose(), at=30)

    loss = followed.fact(WorkspaceLost)
    assert told == (loss.reason, loss.message)


def test_a_body_that_was_never_started_again_is_lost_in_its_first_life() -> None:
    followed = given(submitted(), granted(), placed(), attached(incarnation=0)).when(lose(), at=30)

    assert 0 == followed.fact(WorkspaceLost).incarnation
