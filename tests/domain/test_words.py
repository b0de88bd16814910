"""What is heard of a body: only what is about this very body, in this life of what runs inside it."""

import pytest

from domain.observing import Observation, words_after
from domain.values import Fact
from domain.words import as_loss, joined
from domain.workspace_facts import LastSeen, WorkspaceLost
from domain.workspace_refusals import MESSAGE_MAX_CHARS
from tests.domain.facts import granted, submitted
from tests.domain.ground_facts import BODY, attached, ground, observe, placed, provisioning, restarted, seen
from tests.domain.kit import Given, given

EVICTED = LastSeen(reason="Evicted", message="node pressure")


def standing(*facts: Fact) -> Given:
    """A run that ada acts for, on one directory."""
    return given(submitted(), granted(), ground(), *facts)


def after(case: Given, *observations: Observation, last: LastSeen = LastSeen()) -> LastSeen:  # noqa: B008
    """The last words about the body once these were accepted."""
    return words_after(case.ground(), observations, last)


@pytest.mark.origin("C6")
@pytest.mark.parametrize("kind", ["gone", "ended", "watch_dropped", "present", "harness_restarted"])
def test_what_is_said_of_another_body_is_never_among_the_last_words(kind: str) -> None:
    foreign = seen(kind, identity="body-2", reason="Evicted", message="pressure elsewhere")  # type: ignore[arg-type]

    assert LastSeen() == after(standing(), foreign)
    assert EVICTED == after(standing(), foreign, last=EVICTED)


@pytest.mark.origin("C6")
def test_a_loss_gets_no_words_of_another_body_that_is_reported_with_it() -> None:
    foreign = seen("gone", identity="body-2", reason="Evicted", message="pressure elsewhere")
    loss = standing().when(observe(foreign, seen("gone", identity=BODY))).fact(WorkspaceLost)

    assert ("Deleted", None) == (loss.reason, loss.message)


@pytest.mark.origin("C9")
def test_a_dropped_watch_of_another_body_puts_this_one_in_no_doubt() -> None:
    standing().when(observe(seen("watch_dropped", identity="body-2"))).then_nothing()


@pytest.mark.origin("C20")
def test_a_restart_without_words_inherits_none_of_an_older_one() -> None:
    older = LastSeen(reason="OOMKilled", message="2 GiB")
    silent = seen("harness_restarted", incarnation=3)
    killed = standing(restarted(2, reason="OOMKilled"))

    assert LastSeen() == after(killed, silent, last=older)
    lost = killed.when(observe(silent, seen("gone"), last=older)).fact(WorkspaceLost)
    assert ("Deleted", None) == (lost.reason, lost.message)


def test_a_sight_of_the_body_after_a_restart_keeps_what_the_restart_said() -> None:
    words = after(standing(), seen("harness_restarted", incarnation=2, reason="OOMKilled"), seen("present"))

    assert LastSeen(reason="OOMKilled") == words
    assert words == after(standing(restarted(2, reason="OOMKilled")), seen("present", incarnation=2), last=words)


def test_a_restart_that_is_told_late_says_nothing_of_the_present_life() -> None:
    late = seen("harness_restarted", incarnation=1, reason="OOMKilled")

    assert EVICTED == after(standing(restarted(2)), late, last=EVICTED)


def test_of_two_restarts_in_one_report_the_one_that_is_told_late_says_nothing() -> None:
    killed = seen("harness_restarted", incarnation=3, reason="OOMKilled")
    late = seen("harness_restarted", incarnation=2, reason="Error")

    assert LastSeen(reason="OOMKilled") == after(standing(), killed, late)


def test_the_first_restart_of_a_body_forgets_what_was_said_before_it() -> None:
    fresh = given(submitted(), granted(), placed("directory"), attached(incarnation=0))

    assert LastSeen() == after(fresh, seen("harness_restarted", incarnation=1), last=EVICTED)


def test_a_dropped_watch_may_have_the_last_word_of_a_body() -> None:
    assert LastSeen(reason="NodeLost", message="no route") == after(
        standing(), seen("watch_dropped", reason="NodeLost", message="no route")
    )


def test_what_was_said_while_a_pod_was_made_is_kept_when_it_is_seen_since_nobody_has_attached_to_it() -> None:
    making = given(submitted(), granted(), placed("kubernetes"), provisioning())
    waiting = LastSeen(message="no room")

    assert waiting == after(making, seen("present", identity=BODY), last=waiting)


def test_what_was_said_while_the_body_was_made_is_forgotten_once_it_is_attached_to() -> None:
    making = given(submitted(), granted(), placed("directory"), provisioning())
    waiting = LastSeen(message="no room")

    assert LastSeen() == after(making, seen("present", identity=BODY), last=waiting)
    assert waiting == after(making, seen("watch_dropped"), last=waiting)


def test_a_new_reason_comes_with_its_own_message_or_with_none() -> None:
    assert LastSeen(reason="NodeLost") == joined(EVICTED, "NodeLost", None)
    assert LastSeen(reason="Evicted", message="drained") == joined(EVICTED, None, "drained")
    assert EVICTED == joined(EVICTED, "Evicted", None) == joined(EVICTED, None, None)
    assert LastSeen(message="draining") == joined(LastSeen(reason="OOMKilled"), None, "draining")


def test_a_reason_that_is_no_loss_is_told_in_the_message_within_its_bound() -> None:
    longest = as_loss(LastSeen(reason="OOMKilled", message="m" * MESSAGE_MAX_CHARS))

    assert (EVICTED, LastSeen(message="OOMKilled")) == (as_loss(EVICTED), as_loss(LastSeen(reason="OOMKilled")))
    assert (None, MESSAGE_MAX_CHARS) == (longest.reason, len(longest.message or ""))
