"""The evidence registers: last-seen marks, none of them a fact, and none of them read as old when it is missing."""

import pytest

from domain.lease import LeaseMark
from domain.workspace_facts import LastSeen
from evidence.memory import TOOLS_MAX, TURNS_TOLD_MAX, Evidence, LeaseMarks
from tests.commands.clockwork import NOON


def granted(ttl_s: float = 10.0) -> LeaseMarks:
    """The marks of a node on which one lease was granted at noon."""
    marks = LeaseMarks()
    marks.grant("r1", 1, NOON.mono + ttl_s, NOON)
    return marks


def mark(marks: LeaseMarks) -> LeaseMark:
    """The mark of that lease."""
    found = marks.get("r1")
    assert found is not None
    return found


async def test_a_grant_makes_a_mark_that_was_never_renewed() -> None:
    assert LeaseMark(fence=1, deadline=1010, renewed_at=NOON.wall) == mark(granted())


@pytest.mark.origin("D41")
async def test_a_renewal_gives_the_full_ttl_from_now_and_is_counted() -> None:
    marks = granted()
    for count in (1, 2):
        now = NOON.after(4.0 * count)
        marks.renew("r1", mark(marks), 10, now)

        assert LeaseMark(fence=1, deadline=now.mono + 10, renewed_at=now.wall, renewals=count) == mark(marks)


@pytest.mark.parametrize(("at", "live"), [(9.999, True), (10.0, False), (10.001, False)])
async def test_a_lease_is_live_until_its_deadline_and_over_at_the_deadline_itself(at: float, *, live: bool) -> None:
    assert live == mark(granted()).live(NOON.after(at))


async def test_a_detachment_shortens_a_mark_and_remembers_what_it_was() -> None:
    marks = granted()
    marks.shorten("r1", NOON.mono, 3)

    assert (1003, True, 1010) == (mark(marks).deadline, mark(marks).detached, mark(marks).ttl_deadline)
    marks.shorten("r1", NOON.mono, 2)
    assert (1002, 1010) == (mark(marks).deadline, mark(marks).ttl_deadline)


@pytest.mark.parametrize("deadline", [1010, 1020])
async def test_a_detachment_never_lengthens_a_mark(deadline: float) -> None:
    marks = granted()
    before = mark(marks)
    marks.shorten("r1", NOON.mono, deadline - NOON.mono)

    assert before == mark(marks)


async def test_a_renewal_after_a_detachment_forgets_it() -> None:
    marks = granted()
    marks.shorten("r1", NOON.mono, 3)
    marks.renew("r1", mark(marks), 10, NOON.after(2))

    assert (1012, False, 1012) == (mark(marks).deadline, mark(marks).detached, mark(marks).ttl_deadline)


async def test_the_end_of_a_slice_sets_the_deadline_whatever_it_was() -> None:
    marks = granted()
    marks.shorten("r1", NOON.mono, 3)
    marks.extend("r1", 1001)

    assert (1001, False, 1001) == (mark(marks).deadline, mark(marks).detached, mark(marks).ttl_deadline)


async def test_a_detachment_does_not_shorten_what_was_renewed_after_the_break() -> None:
    marks = granted()
    marks.renew("r1", mark(marks), 10, NOON.after(2))
    renewed = mark(marks)
    marks.shorten("r1", NOON.after(1.999).mono, 1)
    assert renewed == mark(marks)
    marks.shorten("r1", NOON.after(2).mono, 1)

    assert (1003, True) == (mark(marks).deadline, mark(marks).detached)


async def test_a_taken_mark_is_missing_until_it_is_put_back_as_it_was() -> None:
    marks = granted()
    before = mark(marks)
    assert before == marks.take("r1")
    assert (None, None, True) == (marks.get("r1"), marks.take("r1"), marks.taken("r1"))
    marks.put_back("r1")
    assert (before, False) == (mark(marks), marks.taken("r1"))
    marks.put_back("r1")

    assert before == mark(marks)


@pytest.mark.parametrize("granted_anew", [True, False])
async def test_a_mark_is_not_put_back_where_its_lease_has_ended(*, granted_anew: bool) -> None:
    marks = granted()
    marks.take("r1")
    marks.drop("r1")
    if granted_anew:
        marks.grant("r1", 2, 2000, NOON)
    marks.put_back("r1")
    left = marks.get("r1")

    assert (2 if granted_anew else None) == (None if left is None else left.fence)
    assert int(granted_anew) == len(marks)


async def test_a_mark_that_is_put_back_does_not_replace_a_newer_one() -> None:
    marks = granted()
    assert marks.take("r1") is not None
    marks.grant("r1", 2, 2000, NOON)
    marks.put_back("r1")

    assert (2, 1) == (mark(marks).fence, len(marks))


async def test_what_has_no_mark_is_neither_shortened_nor_extended() -> None:
    marks = LeaseMarks()
    marks.shorten("r1", NOON.mono, 1)
    marks.extend("r1", 1)
    marks.drop("r1")

    assert 0 == len(marks)


async def test_a_holder_that_is_asked_something_has_its_whole_ttl_though_it_was_detached() -> None:
    marks = granted()
    whole = mark(marks).deadline
    marks.shorten("r1", NOON.mono, 5)
    marks.lengthen("r1")
    marks.lengthen("r2")

    assert (whole, False) == (mark(marks).deadline, mark(marks).detached)


async def test_nothing_is_left_of_a_run_that_has_ended_or_a_worker_that_left() -> None:
    evidence = Evidence()
    evidence.leases.grant("r1", 1, 1010, NOON)
    evidence.active("r1", NOON)
    evidence.saw_worker(("t", "w"), NOON)
    evidence.lost_worker(("t", "w"))
    evidence.tool_started("r1", "t1", NOON)
    evidence.presence.arrive(("t", "ada"), "c1")
    evidence.tell_turn("r1", 1)
    evidence.grounds.asserted("ws1", NOON)
    evidence.grounds.heard("ws1", LastSeen(reason="Evicted"))
    evidence.grounds.watched(("t", "s"), "r2", 1, NOON)
    kept = {"leases": 1, "activity": 1, "tools": 1, "workers": 1, "connections": 1, "sessions": 0, "turns": 1}
    kept |= {"broken": 1, "under way": 0}
    kept |= {"asserted": 1, "words": 1, "observers": 1, "lists": 0}
    assert kept == evidence.sizes()
    evidence.presence.drop(("t", "ada"), "c1", 0.0)
    evidence.grounds.forget("ws1")
    evidence.grounds.unwatched(("t", "s"))
    evidence.forget_run("r1")
    evidence.forget_worker(("t", "w"))

    assert not any(evidence.sizes().values())
    evidence.forget_run("r1")
    evidence.forget_worker(("t", "w"))


@pytest.mark.parametrize(("passed_s", "broken", "heard"), [(9.9, False, True), (10.0, False, False), (0, True, False)])
def test_a_worker_is_heard_for_so_long_unless_its_stream_broke(passed_s: float, broken: bool, heard: bool) -> None:
    evidence, worker = Evidence(), ("t", "w")
    evidence.saw_worker(worker, NOON)
    if broken:
        evidence.lost_worker(worker)

    assert heard is evidence.hears_worker(worker, NOON.after(passed_s), 10.0)
    evidence.saw_worker(worker, NOON)
    assert evidence.hears_worker(worker, NOON, 10.0)
    assert not evidence.hears_worker(("t", "v"), NOON, 10.0)


async def test_the_last_activity_and_the_last_word_of_a_worker_are_kept() -> None:
    evidence = Evidence()
    for now in (NOON, NOON.after(5)):
        evidence.active("r1", now)
        evidence.saw_worker(("t", "w"), now)
    activity = evidence.activity("r1")

    assert activity is not None
    assert (NOON.after(5).wall, 1005) == (activity.at, activity.mono)
    assert NOON.after(5) == evidence.worker_seen(("t", "w"))
    assert (None, None) == (evidence.activity("r2"), evidence.worker_seen(("t", "v")))


async def test_what_is_being_judged_and_when_a_stream_broke_is_known_as_long_as_it_is_under_way() -> None:
    evidence, worker = Evidence(), ("t", "w")
    for taken in (evidence.stalls, evidence.givings_up, evidence.grounds.reaps):
        taken.take("r1")
        assert ("r1" in taken, "r2" in taken, len(taken)) == (True, False, 1)
        taken.put_back("r1")
        taken.put_back("r1")
        assert "r1" not in taken
    evidence.broke(worker, NOON)
    assert (NOON.mono, 1) == (evidence.broke_at(worker, NOON.wall), evidence.sizes()["under way"])
    assert evidence.broke_at(worker, NOON.after(1).wall) is None
    evidence.break_known(worker, NOON.wall)
    evidence.break_known(worker, NOON.wall)

    assert (None, 0) == (evidence.broke_at(worker, NOON.wall), evidence.sizes()["under way"])


@pytest.mark.parametrize(("past", "oldest_is_known"), [(0, True), (1, False)])
def test_as_many_tool_calls_of_a_run_are_known_as_fit_and_the_oldest_gives_way(
    past: int, *, oldest_is_known: bool
) -> None:
    evidence = Evidence()
    for number in range(TOOLS_MAX + past):
        evidence.tool_started("r1", f"t{number}", NOON.after(number))
    for number in range(1, TOOLS_MAX + past):
        evidence.tool_ended("r1", f"t{number}")

    assert (NOON.mono if oldest_is_known else None) == evidence.tool_since("r1")


@pytest.mark.parametrize(("past", "oldest_is_known"), [(0, True), (1, False)])
def test_as_many_ended_turns_are_known_to_be_told_as_fit_and_the_oldest_gives_way(
    past: int, *, oldest_is_known: bool
) -> None:
    evidence = Evidence()
    for turn in range(TURNS_TOLD_MAX + past):
        evidence.tell_turn("r1", turn)

    assert oldest_is_known == evidence.turn_told("r1", 0)
    assert evidence.turn_told("r1", TURNS_TOLD_MAX + past - 1)
