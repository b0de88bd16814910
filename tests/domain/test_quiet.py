"""Silence and overlong work: which of what was told to the leader still waits for its answer."""

from domain import quiet
from domain.quiet import Overdue, unanswered
from domain.run import Timeout
from domain.run_facts import WorkerTimeout
from tests.domain.commands import acknowledge, answer, claim, close, expire, tell
from tests.domain.facts import granted, parked, submitted
from tests.domain.kit import Decide, Given, given, noon, run_citation

HELD = given(submitted(), granted())


def asked(case: Given) -> dict[str, str]:
    """What waits for an answer: the kind of each, by its citation."""
    return {citation: told.kind for citation, told in unanswered(case.run).items()}


def tell_again(since: float) -> Decide:
    """A stretch of silence that began at that second was long enough to be told."""
    overdue = Overdue(kind="inactivity", since=noon(since).isoformat(), after_s=300)
    return lambda standing, remains, now: quiet.tell(standing, overdue, remains, now)


def test_a_timeout_waits_for_its_answer_and_no_longer() -> None:
    assert {} == asked(HELD)
    for kind in ("inactivity", "total"):
        told = HELD.when(tell(kind), at=30).after

        assert {run_citation(3): kind} == asked(told)
        assert {} == asked(told.when(acknowledge("extend", run_citation(3)), at=31).after)


def test_of_each_kind_only_the_latest_timeout_waits_for_an_answer() -> None:
    twice = HELD.when(tell(), at=20).after.when(tell("total"), at=21).after.when(tell_again(10), at=40).after

    assert {run_citation(4): "total", run_citation(5): "inactivity"} == asked(twice)
    assert {run_citation(4): "total"} == asked(twice.when(acknowledge("extend", run_citation(5)), at=41).after)


def test_a_silence_is_asked_about_no_longer_than_its_attempt_and_an_overlong_run_until_it_ends() -> None:
    told = HELD.when(tell(), at=20).after.when(tell("total"), at=21).after

    queued = told.when(expire(), at=60).after.now_it_is("queued")
    claimed = queued.when(claim("bob"), at=61).after.now_it_is("running", fence=2)
    assert {run_citation(4): "total"} == asked(queued) == asked(claimed)
    assert {} == asked(claimed.when(close(fence=2), at=62).after.now_it_is("succeeded"))


def test_the_silence_of_a_run_that_waits_without_an_attempt_is_asked_about_until_it_is_queued() -> None:
    told = given(submitted(), granted(), parked()).when(tell(), at=30).after

    (only,) = asked(told)
    assert {only: "inactivity"} == asked(told)
    assert {} == asked(told.when(answer(), at=31).after.now_it_is("queued"))


def test_a_timeout_whose_record_does_not_say_how_long_it_took_is_known_to_have_taken_no_time() -> None:
    bare = WorkerTimeout(kind="total", fence=1, worker="ada", marks={"since": "noon"}, cites=())

    (told,) = given(submitted(), granted(), bare).run.timeouts.values()

    assert Timeout(kind="total", mark="noon", after_s=0.0, fence=1) == told
