"""What is told first of what is coming, clock by clock, and what waits for an answer."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from domain.quiet import Overdue, acknowledge, tell
from domain.standing import RunDraft, Standing
from domain.submission import Policy
from domain.values import Moment
from projections.coming import Clock
from projections.document import document
from projections.why import Case, why
from tests.projections.acts import NOON, PARTIAL, Act, Story, cancel, claim, submit

LEADS = Policy(verdict_by="leader")
INSTANT = re.compile(r"2026-01-01T12:\d\d:\d\d")


def told(**wish: Any) -> Story:
    return Story().then(submit(**wish), at=0)


def held(**wish: Any) -> Story:
    return told(**wish).then("claim", at=1)


def answered(story: Story, *clocks: Clock) -> dict[str, Any]:
    return why(story.standing, story.facts, Case(now=story.now, clocks=clocks))


def led(on_leader_gone: str = "cancel", **policy: Any) -> Story:
    return held(leader_id="ada", policy=Policy(on_leader_gone=on_leader_gone, **policy))  # type: ignore[arg-type]


def due(name: str, at: float) -> Clock:
    return Clock(name, NOON.wall, NOON.after(at).wall)


GRACE, LATER_GRACE, QUIET = due("leader_grace", 11), due("leader_grace", 90), due("inactivity", 21)
BACK = "unless its leader 'ada' is back before (`jackline attach r1`)"
GOES_ON = "until then worker 'w1' under fence 1 goes on."
CANCELLED = "the run is settled as cancelled (leader_gone)"

COMING: dict[str, tuple[Callable[[], Story], tuple[Clock, ...], list[str]]] = {
    "a leader that is away is told before a lease that is due later": (
        led, (GRACE,),
        [f"at 2026-01-01T12:00:11.000Z (in 10 s) {CANCELLED}", BACK, GOES_ON],
    ),
    "a lease that is due before is told before the leader's absence": (
        led, (LATER_GRACE,),
        ["worker 'w1' under fence 1 goes on; unless it renews by 2026-01-01T12:01:01.000Z", "the run is queued again",
         "At 2026-01-01T12:01:30.000Z (in 1 min 29 s) " + CANCELLED, BACK],
    ),
    "an absence that parks": (
        lambda: led("park"), (GRACE,),
        ["at 2026-01-01T12:00:11.000Z (in 10 s) the run is paused (leader_gone), its lease revoked", BACK, GOES_ON],
    ),
    "an absence that parks a run that was asked to end": (
        lambda: led("park").then(cancel, at=2), (due("leader_grace", 5),),
        ["the run is settled as cancelled, as was asked", BACK,
         "until then worker 'w1' under fence 1 may save and close."],
    ),
    "an absence that only tells": (
        lambda: led("keep"), (GRACE,), ["worker 'w1' under fence 1 goes on; unless it renews"],
    ),
    "an absence while the verdict is waited for, under park": (
        lambda: held(leader_id="ada", policy=Policy(verdict_by="leader", on_leader_gone="park")).then("succeed", at=2),
        (GRACE,), ["nothing happens until its leader 'ada' or an operator gives the verdict"],
    ),
    "an absence while the verdict is waited for": (
        lambda: held(leader_id="ada", policy=LEADS).then("succeed", at=2), (GRACE,),
        [CANCELLED, BACK, "until then it waits until its leader 'ada' or an operator gives the verdict"],
    ),
    "an absence before a run is due": (
        lambda: told(leader_id="ada", run_after=NOON.after(30).wall), (GRACE,),
        [CANCELLED, BACK, "until then only a worker that claims it by id may take it."],
    ),
    "an absence in the very instant in which a run is due": (
        lambda: told(leader_id="ada", run_after=NOON.after(11).wall), (GRACE,),
        [CANCELLED, BACK, "until then only a worker that claims it by id may take it."],
    ),
    "a run that is due before its leader's grace ends": (
        lambda: told(leader_id="ada", run_after=NOON.after(5).wall), (GRACE,),
        ["it may be claimed from queue 'default' at 2026-01-01T12:00:05.000Z", "At 2026-01-01T12:00:11.000Z"],
    ),
    "an absence while a run waits in its queue": (
        lambda: told(leader_id="ada"), (GRACE,),
        [CANCELLED, BACK, "until then the next worker that claims queue 'default' gets it in its turn"],
    ),
    "an absence while it waits for an answer": (
        lambda: led().then("wait for input", at=2), (GRACE,),
        [CANCELLED, BACK, "until then it waits, without a limit, until its leader 'ada' or an operator answers"],
    ),
    "an absence while it is reserved": (
        lambda: told(leader_id="ada").then("reserve", at=1), (GRACE,),
        [CANCELLED, BACK, "until then worker 'w1' may bind its reservation."],
    ),
    "a reservation that lapses before": (
        lambda: told(leader_id="ada").then("reserve", at=1), (due("leader_grace", 200),),
        ["worker 'w1' binds its reservation", "lapses at 2026-01-01T12:02:01.000Z", "At 2026-01-01T12:03:20.000Z"],
    ),
    "a cancel that is due before the absence": (
        lambda: led().then(cancel, at=2), (due("leader_grace", 20),),
        ["worker 'w1' under fence 1 may save and close until 2026-01-01T12:00:12.000Z (in 10 s)",
         "otherwise the run is settled as cancelled."],
    ),
    "a cancel whose holder loses its lease before": (
        lambda: led(lease_ttl_s=5.0).then(cancel, at=2), (),
        ["may save and close; unless it renews by 2026-01-01T12:00:06.000Z (in 4 s), the run is settled as cancelled, "
         "otherwise at 2026-01-01T12:00:12.000Z (in 10 s)"],
    ),
    "a cancel of a parked run whose lease ends later": (
        lambda: held().then("wait for a peer", at=2).then(cancel, at=3), (),
        ["unless its holder closes it with success it is cancelled by 2026-01-01T12:00:13.000Z (in 10 s), and unless "
         "it renews by 2026-01-01T12:01:01.000Z (in 58 s), the lease ends and the run is settled as cancelled."],
    ),
    "a slice that ends before the lease": (
        lambda: held(policy=Policy(max_hold_s=30.0)), (),
        ["its slice ends at 2026-01-01T12:00:31.000Z (in 30 s), and unless it renews by 2026-01-01T12:01:01.000Z"],
    ),
    "a quiet stretch that ends the attempt": (
        lambda: led(on_quiet="fail_attempt"), (QUIET, LATER_GRACE),
        ["unless there is a sign of work by 2026-01-01T12:00:21.000Z (in 20 s), its attempt has stalled: the run is "
         "queued again after 10 s, with 1 of 3 attempts failed, and its worker is quarantined. Worker 'w1' under "
         "fence 1 goes on; unless it renews by 2026-01-01T12:01:01.000Z", "At 2026-01-01T12:01:30.000Z"],
    ),
    "a quiet stretch that ends the last attempt": (
        lambda: led(on_quiet="fail_attempt", max_attempts=1), (QUIET,),
        ["its attempt has stalled: the run is aborted, with 1 of 1 attempts failed"],
    ),
    "an absence before a quiet stretch": (
        lambda: led(on_quiet="fail_attempt"), (QUIET, GRACE), [CANCELLED, GOES_ON],
    ),
    "clocks that only tell": (
        led, (due("inactivity", 3), due("total", 4), due("idle_reap", 5), due("admission", 6)),
        ["worker 'w1' under fence 1 goes on; unless it renews by 2026-01-01T12:01:01.000Z"],
    ),
}  # fmt: skip


@pytest.mark.origin("H17", "A1")
@pytest.mark.parametrize("name", COMING)
def test_what_is_due_first_and_decides_is_told_first_and_nothing_later_as_if_it_came(name: str) -> None:
    begin, clocks, said = COMING[name]
    story = begin()

    coming = answered(story, *clocks)["next"]

    places = [coming.find(each) for each in said]
    instants = INSTANT.findall(coming)
    assert -1 not in places, coming
    assert (sorted(places), sorted(instants)) == (places, instants)
    if CANCELLED in said[0]:
        assert "unless it renews" not in coming
        assert "may be claimed from queue" not in coming


def timed_out(kind: str, at: float) -> Act:
    def decide(standing: Standing, now: Moment) -> RunDraft:
        overdue = Overdue(kind=kind, since=NOON.wall.isoformat(), after_s=at)  # type: ignore[arg-type]
        return tell(standing, overdue, PARTIAL, now)

    return decide


@pytest.mark.origin("H17")
@pytest.mark.parametrize("kinds", [["inactivity"], ["total"], ["inactivity", "total"]])
def test_a_timeout_that_nobody_has_answered_is_among_the_reasons_and_asks_for_its_answer(kinds: list[str]) -> None:
    story = led()
    for kind in kinds:
        story.then(timed_out(kind, 5), at=5)

    answer = answered(story)
    topics = [fact["topic"] for fact in answer["because"]]
    shown = document(story.standing.known, story.standing.lease)["timeouts"]

    assert len(kinds) == topics.count("run.worker_timeout.v1")
    assert f"Its {' and '.join(kinds)} timeout" in answer["next"]
    assert "(`jackline extend r1`) or end it (`jackline abort r1`)." in answer["next"]
    assert kinds == [one["kind"] for one in shown]


def test_a_timeout_asks_no_longer_once_it_was_answered_or_its_attempt_is_over() -> None:
    extended = led().then(timed_out("total", 5), at=5)
    (asked,) = document(extended.standing.known, extended.standing.lease)["timeouts"]
    extended.then(lambda standing, now: acknowledge(standing, asked["fact"], "extend", "ada", (PARTIAL, now)), at=6)
    over = led().then(timed_out("inactivity", 5), at=5).then("hand back", at=6)
    anew = led().then(timed_out("inactivity", 5), at=5).then("hand back", at=6).then(claim("w2", by_id=True), at=9)

    for story in (extended, over, anew):
        assert "timeouts" not in document(story.standing.known, story.standing.lease)
        assert "not answered" not in answered(story)["next"]
