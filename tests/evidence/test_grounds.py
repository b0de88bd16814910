"""The marks about ground: last words, assertions, and who watches which scope."""

from domain.workspace_facts import LastSeen
from evidence.grounds import Asserted, GroundMarks
from tests.commands.clockwork import NOON

SCOPE = ("default", "cluster-1")


def test_the_last_words_are_those_that_were_heard_last() -> None:
    marks = GroundMarks()
    marks.heard("w", LastSeen(reason="Evicted", message="disk pressure"))
    marks.heard("w", LastSeen(reason="Evicted", message="drained"))

    assert ("Evicted", "drained") == (marks.words("w").reason, marks.words("w").message)
    assert (None, None) == (marks.words("other").reason, marks.words("other").message)
    marks.heard("w", LastSeen())
    assert (LastSeen(), 0) == (marks.words("w"), marks.sizes()["words"])


def test_the_latest_assertion_counts() -> None:
    marks = GroundMarks()
    marks.asserted("w", NOON)
    marks.asserted("w", NOON.after(5))

    assert Asserted(NOON.after(5).mono, NOON.after(5).wall) == marks.last_asserted("w")
    marks.starts_anew("w", NOON.after(9))
    assert Asserted(NOON.after(9).mono, None) == marks.last_asserted("w")
    marks.forget("w")
    assert marks.last_asserted("w") is None


def test_a_scope_has_the_observer_that_reported_on_it_last() -> None:
    marks = GroundMarks()
    marks.watched(SCOPE, "run-1", 1, NOON)
    marks.watched(("default", "cluster-2"), "run-1", 1, NOON)
    marks.watched(SCOPE, "run-2", 4, NOON)

    assert ([("default", "cluster-2")], [SCOPE]) == (marks.watched_by("run-1"), marks.watched_by("run-2"))
    observer = marks.observer(SCOPE)
    assert observer is not None
    assert ("run-2", 4) == (observer.run_id, observer.fence)


def test_of_a_scope_that_nobody_watches_nothing_is_left() -> None:
    marks = GroundMarks()
    marks.watched(SCOPE, "run-1", 1, NOON)
    marks.unwatched(SCOPE)
    marks.unwatched(SCOPE)

    assert ([], None) == (marks.watched_by("run-1"), marks.observer(SCOPE))
    assert not any(marks.sizes().values())
