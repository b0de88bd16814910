"""What a holder and a provider do with a workspace: wished for under a fence, bounded, one body, let go once."""

from typing import Any

import pytest

from domain.claiming import LimitReached
from domain.lease import FenceLost, FenceRequired
from domain.refusal import InvalidCommand, WrongState
from domain.run_facts import AttemptStarted
from domain.workspace_facts import (
    HarnessRestarted,
    WorkspaceAttached,
    WorkspaceDestroyed,
    WorkspacePlaced,
    WorkspaceReaped,
    WorkspaceReleased,
    WorkspaceWaiting,
)
from domain.workspace_refusals import (
    DETAIL_MAX_CHARS,
    DETAILS_MAX,
    IDENTITY_MAX_CHARS,
    INCARNATION_MAX,
    MESSAGE_MAX_CHARS,
    SCOPE_MAX_CHARS,
    WORKSPACES_MAX,
    IdentityChanged,
    WorkspaceUnknown,
    WrongPhase,
)
from tests.domain.commands import claim
from tests.domain.facts import granted, handed_back, parked, submitted
from tests.domain.ground_facts import (
    BODY,
    attach,
    attached,
    ground,
    lost,
    place,
    placed,
    provision,
    provisioning,
    reap,
    release,
    released,
    say_gone,
    unknown,
    unsee,
    wait_for,
)
from tests.domain.kit import RUN, Given, given, noon, on

HELD = (submitted(), granted())


@pytest.mark.origin("C13", "C30")
@pytest.mark.parametrize(
    ("provider", "phase"),
    [("external", "provisioning"), ("directory", "placing"), ("process", "placing"), ("kubernetes", "placing")],
)
def test_a_wished_for_workspace_says_who_wants_it_and_waits_for_its_body(provider: Any, phase: str) -> None:
    outcome = given(*HELD).when(place(provider=provider, scope="cluster-a"), at=5)

    ground = outcome.then(WorkspacePlaced).ground("w2")
    assert (RUN, "default", 1, "ada", "cluster-a", noon(5)) == (
        ground.placed.run_id, ground.placed.tenant, ground.placed.fence, ground.placed.worker, ground.placed.scope,
        ground.placed.placed_at,
    )  # fmt: skip
    assert (phase, provider == "external") == (ground.phase, ground.provisioning_since is not None)
    assert {"workspace-w2": 0} == {k: v for k, v in outcome.versions.items() if k.startswith("workspace")}


def test_only_the_holder_may_place_and_only_while_it_works() -> None:
    given(*HELD).when(place(fence=2)).then_refused(FenceLost)
    given(*HELD).when(place(fence=None)).then_refused(FenceRequired)
    given(*HELD).when(place(by="bob")).then_refused(FenceLost)
    given(*HELD, parked(kept=True)).when(place()).then_refused(WrongState)


def crowded(count: int) -> Given:
    """A run with that many workspaces that are not over."""
    return given(*HELD, *(on(f"w{n + 100}", placed(workspace_id=f"w{n + 100}")) for n in range(count)))


def test_a_run_stands_on_a_bounded_number_of_workspaces_of_which_the_ended_do_not_count() -> None:
    crowded(WORKSPACES_MAX - 1).when(place()).then(WorkspacePlaced)
    refusal = crowded(WORKSPACES_MAX).when(place()).then_refused(LimitReached)

    assert ("workspaces_max", WORKSPACES_MAX, RUN) == (refusal.limit, refusal.value, refusal.subject)
    given(*HELD, crowded_with_one_lost()).when(place()).then(WorkspacePlaced)


def crowded_with_one_lost() -> list[Any]:
    """As many as there may be, one of them lost."""
    names = [f"w{n + 100}" for n in range(WORKSPACES_MAX)]
    return [[on(name, placed(workspace_id=name)) for name in names], on(names[0], attached(), lost())]


def test_a_scope_is_accepted_at_its_bound_and_refused_one_past_it() -> None:
    given(*HELD).when(place(scope="x" * SCOPE_MAX_CHARS)).then(WorkspacePlaced)
    assert "scope" == given(*HELD).when(place(scope="x" * (SCOPE_MAX_CHARS + 1))).then_refused(InvalidCommand).field


@pytest.mark.origin("C30")
def test_what_it_waits_for_is_told_when_it_changes_and_only_then() -> None:
    after = given(*HELD, placed("kubernetes")).when(wait_for("node", "0/3 nodes")).then(WorkspaceWaiting)

    after.when(wait_for("node", "0/3 nodes")).then_nothing()
    after.when(wait_for("quota", "0/3 nodes")).then(WorkspaceWaiting)
    assert after.when(provision()).after.ground().waiting is None
    after.when(wait_for("node", "x" * MESSAGE_MAX_CHARS)).then(WorkspaceWaiting)
    after.when(wait_for("node", "x" * (MESSAGE_MAX_CHARS + 1))).then_refused(InvalidCommand)


def test_the_budget_begins_with_the_first_word_of_provisioning() -> None:
    first = given(*HELD, placed("kubernetes")).when(provision(), at=5).after
    then = first.when(provision(BODY), at=50).after

    assert (noon(5), "attaching", BODY) == (
        then.ground().provisioning_since, then.ground().phase, then.ground().identity,
    )  # fmt: skip


@pytest.mark.origin("C36", "C7")
def test_the_same_body_may_be_attached_to_again_and_no_other_may() -> None:
    standing = given(*HELD, ground())

    standing.when(attach()).then_nothing()
    standing.when(attach(incarnation=2)).then(HarnessRestarted)
    assert "body-2" == standing.when(attach("body-2")).then_refused(IdentityChanged).presented


def test_what_people_may_want_to_know_of_a_body_is_kept_within_its_bounds() -> None:
    waiting = given(*HELD, placed())
    full = {f"{n:03}": "x" * DETAIL_MAX_CHARS for n in range(DETAILS_MAX)}
    most = attach("x" * IDENTITY_MAX_CHARS, INCARNATION_MAX, details=full)

    assert full == waiting.when(most).fact(WorkspaceAttached).details
    past: dict[str, dict[str, Any]] = {
        "details": {"details": full | {"one": "more"}},
        "details.a": {"details": {"a": "x" * (DETAIL_MAX_CHARS + 1)}},
        "identity": {"identity": "x" * (IDENTITY_MAX_CHARS + 1)},
        "incarnation": {"incarnation": INCARNATION_MAX + 1},
    }
    for field, command in past.items():
        assert field == waiting.when(attach(**command)).then_refused(InvalidCommand).field
    for nameless in ("", "x" * (DETAIL_MAX_CHARS + 1)):
        waiting.when(attach(details={nameless: "x"})).then_refused(InvalidCommand)
    waiting.when(attach(identity="")).then_refused(InvalidCommand)


@pytest.mark.origin("C9")
def test_the_earlier_of_two_unknowns_is_kept() -> None:
    standing = given(*HELD, ground())
    unseen = standing.when(unsee("boot"), at=20).after

    unseen.when(unsee("observer_gone"), at=30).then_nothing()
    assert (noon(20), "boot") == (unseen.ground().unknown_since, unseen.ground().unknown_cause)


@pytest.mark.origin("C16", "K16")
def test_what_is_not_asserted_is_reaped_once_and_its_body_is_to_be_destroyed() -> None:
    outcome = given(*HELD, ground()).when(reap(), at=1810)

    after = outcome.then(WorkspaceReaped)
    assert (noon(), 1800) == (outcome.fact(WorkspaceReaped).last_asserted_at, outcome.fact(WorkspaceReaped).idle_s)
    assert after.ground().awaits_teardown
    after.when(reap()).then_nothing()
    after.when(release()).then_nothing()


@pytest.mark.origin("C19")
def test_what_was_never_placed_is_destroyed_as_soon_as_it_is_let_go() -> None:
    given(*HELD, placed()).when(release()).then(WorkspaceReleased, WorkspaceDestroyed)
    given(*HELD, placed()).when(reap()).then(WorkspaceReaped, WorkspaceDestroyed)
    given(*HELD, placed("external")).when(release()).then(WorkspaceReleased)


def test_a_body_that_was_let_go_is_destroyed_by_the_word_of_whoever_looked_and_no_other_is() -> None:
    outcome = given(*HELD, ground(), released()).when(say_gone(), at=9)

    assert "said_gone" == outcome.fact(WorkspaceDestroyed).cause
    assert "destroyed" == outcome.after.ground().phase
    outcome.after.when(say_gone()).then_nothing()
    refused = given(*HELD, ground()).when(say_gone()).then_refused(WrongPhase)
    assert ("running", "to be destroyed") == (refused.phase, refused.wanted)


@pytest.mark.origin("C6")
def test_a_lost_body_is_destroyed_when_somebody_lets_it_go_and_stays_lost() -> None:
    after = given(submitted(on_workspace_lost="retry_fresh"), granted(), ground(), lost()).when(release()).after

    assert ("lost", True) == (after.ground().phase, after.ground().awaits_teardown)


def test_an_attempt_notes_the_marks_of_what_it_stands_on_when_it_starts() -> None:
    facts = (handed_back(), ground(), on("w2", placed(workspace_id="w2"), provisioning(BODY)), unknown())
    assert {"w1": 1} == given(*HELD, *facts).when(claim()).fact(AttemptStarted).incarnations


@pytest.mark.parametrize("ask", ["wait", "provision", "attach", "unsee", "release", "reap", "say_gone"])
def test_a_workspace_of_another_run_is_unknown_here(ask: str) -> None:
    commands = {
        "wait": wait_for(workspace_id="w9"), "provision": provision(workspace_id="w9"),
        "attach": attach(workspace_id="w9"), "unsee": unsee(workspace_id="w9"),
        "release": release(workspace_id="w9"), "reap": reap("w9"), "say_gone": say_gone("w9"),
    }  # fmt: skip

    assert "w9" == given(*HELD, ground()).when(commands[ask]).then_refused(WorkspaceUnknown).workspace_id


def test_a_command_past_its_phase_names_the_phase_and_what_it_is_for() -> None:
    refusal = given(*HELD, ground()).when(wait_for()).then_refused(WrongPhase)

    assert ("running", "placing") == (refusal.phase, refusal.wanted)
