"""Deadlines: one reminder for each kind and subject, earliest first, and nothing left of what is over."""

from hypothesis import given
from hypothesis import strategies as st

from projections.live.deadlines import KINDS, SPARE, Deadlines, Due, Kind, due


def reminders(*pairs: tuple[float, str], kind: Kind = "lease") -> Deadlines:
    """Reminders at these moments about these runs."""
    deadlines = Deadlines()
    for mono, run_id in pairs:
        deadlines.add(due(mono, kind, (run_id,), "1"))
    return deadlines


def named(popped: list[Due]) -> list[str]:
    """What they are about."""
    return [reminder.subject[0] for reminder in popped]


def test_what_is_due_comes_earliest_first_and_once() -> None:
    deadlines = reminders((3, "c"), (1, "a"), (2, "b"), (9, "z"))

    assert ["a", "b", "c"] == named(deadlines.pop_due(3, 10))
    assert [] == deadlines.pop_due(3, 10)
    assert (9, 1) == (deadlines.next(), len(deadlines))


def test_a_reminder_is_due_at_its_moment_and_not_before() -> None:
    deadlines = reminders((10, "a"))

    assert [] == deadlines.pop_due(9.999, 10)
    assert ["a"] == named(deadlines.pop_due(10, 10))


def test_at_one_instant_a_slice_comes_before_a_lease_and_all_kinds_in_their_order() -> None:
    deadlines = Deadlines()
    for kind in reversed(KINDS):
        deadlines.add(due(5, kind, ("a",), ""))

    assert list(KINDS) == [reminder.kind for reminder in deadlines.pop_due(5, 100)]
    assert KINDS.index("leader") < KINDS.index("lease")
    assert KINDS.index("slice") < KINDS.index("lease")


def test_no_more_are_taken_than_asked_for() -> None:
    deadlines = reminders(*((number, f"r{number}") for number in range(5)))

    assert ["r0", "r1"] == named(deadlines.pop_due(9, 2))
    assert ["r2", "r3", "r4"] == named(deadlines.pop_due(9, 5))


def test_the_earliest_of_one_occasion_stays() -> None:
    deadlines = reminders((5, "a"), (9, "a"), (3, "a"))

    assert (3, 1) == (deadlines.next(), len(deadlines))


def test_a_new_occasion_replaces_the_old_one() -> None:
    deadlines = reminders((5, "a"))
    deadlines.add(due(9, "lease", ("a",), "2"))

    assert [] == deadlines.pop_due(8, 10)
    assert ["2"] == [reminder.mark for reminder in deadlines.pop_due(9, 10)]


def test_looking_again_does_not_replace_a_new_occasion() -> None:
    deadlines = reminders((9, "a"))
    deadlines.add_again(due(3, "lease", ("a",), "0"))
    deadlines.add_again(due(3, "lease", ("b",), "0"))

    assert ["b"] == named(deadlines.pop_due(8, 10))


def test_looking_again_does_not_wait_for_a_later_reminder_on_the_same_occasion() -> None:
    deadlines = reminders((9, "a"))
    (mark,) = {reminder.mark for reminder in deadlines.all()}
    deadlines.add_again(due(3, "lease", ("a",), mark))

    assert ["a"] == named(deadlines.pop_due(3, 10))
    assert [] == named(deadlines.pop_due(9, 10))


def test_a_forgotten_reminder_does_not_come() -> None:
    deadlines = reminders((1, "a"), (2, "b"))
    deadlines.forget("lease", ("a",))
    deadlines.forget("lease", ("nothing",))
    deadlines.forget("slice", ("b",))

    assert (2, 1) == (deadlines.next(), len(deadlines))
    assert ["b"] == named(deadlines.pop_due(9, 10))
    assert None is deadlines.next()


def test_everything_is_shifted_together() -> None:
    deadlines = reminders((1, "a"), (2, "b"))
    deadlines.forget("lease", ("a",))
    deadlines.shift(10)

    assert [12.0] == [reminder.mono for reminder in deadlines.all()]
    assert ["b"] == named(deadlines.pop_due(12, 10))


def test_forgotten_reminders_do_not_gather_without_bound() -> None:
    deadlines = reminders((1, "stays"))
    for number in range(1_000):
        deadlines.add(due(number, "lease", (f"r{number}",), "1"))
        deadlines.forget("lease", (f"r{number}",))

    assert SPARE + 3 >= len(deadlines._heap)
    assert 1 == len(deadlines)


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "forget", "pop"]), st.integers(0, 9), st.sampled_from("abc"), st.booleans())
    )
)
def test_it_is_a_map_of_occasions_taken_in_order(acts: list[tuple[str, int, str, bool]]) -> None:
    deadlines, model = Deadlines(), dict[str, tuple[float, str]]()
    for act, mono, run_id, anew in acts:
        mark = "2" if anew else "1"
        if act == "add":
            deadlines.add(due(mono, "lease", (run_id,), mark))
            known = model.get(run_id)
            if known is None or known[1] != mark or known[0] > mono:
                model[run_id] = (mono, mark)
        elif act == "forget":
            deadlines.forget("lease", (run_id,))
            model.pop(run_id, None)
        else:
            ready = sorted((at, run) for run, (at, _) in model.items() if at <= mono)
            assert [run for _, run in ready] == named(deadlines.pop_due(mono, 99))
            model = {run: known for run, known in model.items() if known[0] > mono}
        assert len(model) == len(deadlines)
        assert deadlines.next() == (min(model.values())[0] if model else None)


@given(
    st.lists(
        st.tuples(st.sampled_from([1.0, 2.0, 3.0]), st.sampled_from(["lease", "leader"]), st.text("abc", max_size=1))
    )
)
def test_what_is_due_of_one_kind_is_found_wherever_it_lies(asked: list[tuple[float, Kind, str]]) -> None:
    deadlines = Deadlines()
    for mono, kind, name in asked:
        deadlines.add(due(mono, kind, (name,), str(mono)))
    expected = sorted(each.subject for each in deadlines.all() if each.kind == "leader" and each.mono <= 2)

    assert expected == sorted(deadlines.due_of("leader", 2))
    assert expected == sorted(each.subject for each in deadlines.pop_due(2, 1_000) if each.kind == "leader")
