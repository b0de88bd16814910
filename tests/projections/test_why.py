"""Why a run is as it is, in each state: the facts that led there, the evidence, the clocks, and what follows."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from domain.refusal import RunUnknown
from domain.submission import Policy
from projections.outlook import Blocked
from projections.why import REASONS_MAX, Case, History, reasons, why
from tests.projections.acts import NOON, Story, cancel, claim, close, expire, judge, park, pause, submit

LEADS = Policy(verdict_by="leader")
SLICED = Policy(max_hold_s=30.0, lease_ttl_s=10.0)
ONCE = Policy(max_attempts=1)

BEGAN = ("lease.fence_bumped", "run.attempt_started")


def told(**wish: Any) -> Story:
    return Story().then(submit(**wish), at=0)


def held(**wish: Any) -> Story:
    return told(**wish).then("claim", at=1)


def expired() -> Story:
    return held().then(expire, at=61)


CASES: dict[str, tuple[Callable[[], Story], list[str], list[str], str]] = {
    "queued": (
        told, ["run.submitted"], [],
        "the next worker that claims queue 'default' gets it in its turn, as attempt 1 under fence 1; "
        "an operator may pause or cancel it before.",
    ),
    "queued for a labelled worker": (
        lambda: told(labels={"gpu": "a100"}), ["run.submitted"], [],
        "the next worker that claims queue 'default' and has the labels gpu=a100 gets it",
    ),
    "queued until its time": (
        lambda: told(run_after=NOON.after(30).wall), ["run.submitted"], ["run_after"],
        "it may be claimed from queue 'default' at 2026-01-01T12:00:30.000Z (in 30 s); a worker that claims it by id",
    ),
    "queued after an expiry": (
        expired,
        ["run.submitted", "lease.expired", "run.worker_timeout", "run.attempt_ended"], [],
        "the next worker that claims queue 'default' gets it in its turn, as attempt 2 under fence 2",
    ),
    "queued after a detachment": (
        lambda: held().detached(at=2).then(expire, at=3),
        ["run.submitted", "lease.expired", "run.worker_timeout", "run.attempt_ended"], [],
        "as attempt 2 under fence 2",
    ),
    "queued for a retry": (
        lambda: held().then("fail", at=2),
        ["run.submitted", "run.closed"], ["retry"],
        "it may be claimed from queue 'default' at 2026-01-01T12:00:12.000Z (in 10 s)",
    ),
    "queued after it was handed back": (
        lambda: held().then("hand back", at=2),
        ["run.submitted", "lease.released", "run.attempt_ended"], ["continuation"],
        "at 2026-01-01T12:00:03.000Z (in 1 s)",
    ),
    "queued after its slice": (
        lambda: held(policy=SLICED).then("end the slice", at=31).then(expire, at=41),
        ["run.submitted", "lease.expired", "run.attempt_ended"], ["continuation"],
        "at 2026-01-01T12:00:42.000Z (in 1 s)",
    ),
    "queued by an answer": (
        lambda: held().then("wait for input", at=2).then("answer", at=3),
        ["run.submitted", "run.input_provided"], [],
        "as attempt 2 under fence 2",
    ),
    "queued by a resume": (
        lambda: told().then(pause, at=1).then("resume", at=2),
        ["run.submitted", "run.resumed"], [],
        "as attempt 1 under fence 1",
    ),
    "queued again after a reservation": (
        lambda: told().then("reserve", at=1).then("lapse", at=121),
        ["run.submitted", "lease.reservation_lapsed"], [],
        "as attempt 1 under fence 2",
    ),
    "reserved": (
        lambda: told().then("reserve", at=1),
        ["run.submitted", "lease.reserved"], ["reservation"],
        "worker 'w1' binds its reservation and starts attempt 1, or the reservation lapses at "
        "2026-01-01T12:02:01.000Z (in 2 min) and the run is queued as it was; a pause or a cancel would end it.",
    ),
    "running": (
        held,
        ["run.submitted", "lease.fence_bumped", "run.attempt_started"], ["lease"],
        "worker 'w1' under fence 1 goes on; unless it renews by 2026-01-01T12:01:01.000Z (in 1 min), "
        "the run is queued again at once, with 1 of 3 attempts failed.",
    ),
    "running from a reservation": (
        lambda: told().then("reserve", at=1).then("bind", at=2),
        ["run.submitted", "lease.bound", "run.attempt_started"], ["lease"],
        "worker 'w1' under fence 1 goes on",
    ),
    "running its last attempt": (
        lambda: held(policy=ONCE),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started"], ["lease"],
        "the run is aborted, because 1 of 1 attempts have then failed.",
    ),
    "running in a slice": (
        lambda: held(policy=SLICED),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started"], ["lease", "slice"],
        "unless it renews by 2026-01-01T12:00:11.000Z (in 10 s), the run is queued again at once, with 1 of 3 attempts "
        "failed; its slice ends at 2026-01-01T12:00:31.000Z (in 30 s).",
    ),
    "running after its slice": (
        lambda: held(policy=SLICED).renewed(at=30).then("end the slice", at=31),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started", "lease.slice_ended"], ["lease"],
        "its slice is over, and unless it hands back, parks or closes by",
    ),
    "running a second attempt": (
        lambda: expired().then(claim("w2"), at=62),
        ["run.submitted", "lease.expired", "run.worker_timeout", "run.attempt_ended", "lease.fence_bumped",
         "run.attempt_started"], ["lease"],
        "worker 'w2' under fence 2 goes on; unless it renews by 2026-01-01T12:02:02.000Z (in 1 min), "
        "the run is queued again at once, with 2 of 3 attempts failed.",
    ),
    "running, detached": (
        lambda: held().detached(at=2),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started"], ["reconnect"],
        "unless it renews by 2026-01-01T12:00:03.000Z (in 1 s)",
    ),
    "running, answered while it held on": (
        lambda: held().then(park("waiting_input", keep_lease=True), at=2).then("answer", at=3),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started", "run.input_provided"], ["lease"],
        "worker 'w1' under fence 1 goes on",
    ),
    "running, asked to pause": (
        lambda: held().then(pause, at=2),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started", "run.pause_requested"], ["lease"],
        "it was asked to pause, and the run is paused as soon as its attempt ends",
    ),
    "running, asked to end": (
        lambda: held().then(cancel, at=2),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started", "run.cancel_requested"],
        ["cancel_grace", "lease"],
        "worker 'w1' under fence 1 may save and close until 2026-01-01T12:00:12.000Z (in 10 s), "
        "and a success closed by then stands; otherwise the run is settled as cancelled.",
    ),
    "waiting for input": (
        lambda: held(leader_id="ada").then("wait for input", at=2),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started", "run.attempt_ended", "lease.released",
         "run.parked"], [],
        "it waits, without a limit, until its leader 'ada' or an operator answers its question: "
        "it is then queued at the front of queue 'default'; a worker that claims it by id may take it before.",
    ),
    "waiting for a peer, lease kept": (
        lambda: held().then("wait for a peer", at=2),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started", "run.parked"], ["lease"],
        "it waits, without a limit, until an operator answers for its peer: worker 'w1' under fence 1 keeps its lease "
        "and goes on then; unless it renews by 2026-01-01T12:01:01.000Z (in 59 s), the lease ends and the run stays "
        "parked.",
    ),
    "waiting for a peer, lease lost": (
        lambda: held().then("wait for a peer", at=2).then(expire, at=61),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started", "run.parked", "lease.expired",
         "run.attempt_ended"], [],
        "answers for its peer: it is then queued at the front",
    ),
    "waiting for a take-over": (
        lambda: held().then("wait for a take-over", at=2),
        ["run.submitted", "lease.fence_bumped", "run.attempt_started", "run.attempt_ended", "lease.released",
         "run.parked"], [],
        "until an operator resumes it",
    ),
    "paused": (
        lambda: told().then(pause, at=1),
        ["run.submitted", "run.pause_requested", "run.parked"], [],
        "it is paused until an operator resumes it: it is then queued at the front of queue 'default'.",
    ),
    "waiting for the verdict": (
        lambda: held(leader_id="ada", policy=LEADS).then("succeed", at=2),
        ["run.submitted", "run.closed"], [],
        "nothing happens until its leader 'ada' or an operator gives the verdict on the worker's outcome 'succeeded'",
    ),
    "succeeded": (
        lambda: held().then("succeed", at=2),
        ["run.submitted", *BEGAN, "run.closed"], [],
        "nothing: the run is succeeded (closed) and never changes; retry makes a new run like it.",
    ),
    "failed": (
        lambda: held().then("fail for good", at=2),
        ["run.submitted", *BEGAN, "run.partial_salvaged", "run.closed"], [],
        "nothing: the run is failed (closed)",
    ),
    "succeeded by verdict": (
        lambda: held(leader_id="ada", policy=LEADS).then("succeed", at=2).then(judge("succeeded"), at=3),
        ["run.submitted", *BEGAN, "run.closed", "run.verdict_rendered"], [],
        "nothing: the run is succeeded (verdict)",
    ),
    "cancelled": (
        lambda: held().then(cancel, at=2).then("the cancel is due", at=12),
        ["run.submitted", *BEGAN, "run.cancel_requested", "run.attempt_ended", "run.partial_salvaged",
         "run.settled"], [],
        "nothing: the run is cancelled (cancelled)",
    ),
    "aborted": (
        lambda: held(policy=ONCE).then(expire, at=61),
        ["run.submitted", *BEGAN, "lease.expired", "run.worker_timeout", "run.attempt_ended", "run.partial_salvaged",
         "run.settled"], [],
        "nothing: the run is aborted (attempts_exhausted)",
    ),
    "queued with an effect that nobody knows of": (
        lambda: held(leader_id="ada").then("begin an effect", at=2).then("hand back", at=3),
        ["run.submitted", "lease.released", "effect.made_ambiguous", "run.attempt_ended"], ["continuation"],
        "Its effect is ambiguous: 'mail'; its leader 'ada' or an operator may find out and say so",
    ),
    "held again with an effect that nobody knows of": (
        lambda: held().then("begin an effect", at=2).then("hand back", at=3).then(claim("w2"), at=9),
        ["run.submitted", "lease.released", "effect.made_ambiguous", "run.attempt_ended", *BEGAN], ["lease"],
        "Its effect is ambiguous: 'mail'; its holder or an operator may find out and say so",
    ),
    "settled with an effect that nobody knows of": (
        lambda: held().then("begin an effect", at=2).then(close("succeeded", result=1), at=3),
        ["run.submitted", *BEGAN, "effect.made_ambiguous", "run.closed"], [],
        "Its effect is ambiguous: 'mail'; an operator may find out and say so (`jackline effect reconcile mail --run "
        "r1 --done` or `--not-done`).",
    ),
}  # fmt: skip


def answered(story: Story, case: Case | None = None) -> dict[str, Any]:
    return why(story.standing, story.facts, case or Case(now=story.now))


@pytest.mark.origin("H17")
@pytest.mark.parametrize("name", CASES)
def test_each_state_is_explained_by_its_facts_its_clocks_and_what_is_next(name: str) -> None:
    tell, because, clocks, coming = CASES[name]
    story = tell()

    answer = answered(story)

    assert because == [fact["topic"].removesuffix(".v1") for fact in answer["because"]]
    assert clocks == [clock["name"] for clock in answer["clocks"]]
    assert coming in answer["next"]
    assert (story.standing.state, story.standing.lease.fence) == (answer["state"], answer["fence"])
    assert answer["next"].endswith(".")


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_ready_for_the_wire_and_does_not_depend_on_the_order_of_the_facts(name: str) -> None:
    story = CASES[name][0]()
    case = Case(now=story.now)

    forwards = msgspec.json.encode(why(story.standing, story.facts, case))
    backwards = msgspec.json.encode(why(story.standing, story.facts[::-1], case))

    assert forwards == backwards
    contract = {"state", "because", "evidence", "fence", "clocks", "next"}
    assert contract | {"turns", "waiting_for", "queue", "refused"} == set(json.loads(forwards))


def test_the_evidence_of_an_expiry_is_what_its_fact_carried() -> None:
    story = held().renewed(at=20).renewed(at=40).then(expire, at=100)

    evidence = answered(story)["evidence"]

    assert (NOON.after(40).wall, 2, False) == (
        evidence["last_renewed_at"], evidence["renewals"], evidence["detached"],
    )  # fmt: skip
    assert ["lease.expired.v1", "run.worker_timeout.v1", "run.attempt_ended.v1"] == [
        entry["topic"] for entry in evidence["carried"]
    ]


def test_an_attempt_that_died_is_no_evidence_of_the_one_that_succeeded_after_it() -> None:
    story = held().renewed(at=20).then(expire, at=100).then(claim("w2"), at=101).then("succeed", at=102)

    evidence = answered(story)["evidence"]

    assert (None, None, None) == (evidence["last_renewed_at"], evidence["renewals"], evidence["detached"])
    assert "lease.expired.v1" in [entry["topic"] for entry in evidence["carried"]]


def test_the_evidence_of_a_live_lease_is_its_mark() -> None:
    story = held().renewed(at=20)
    active = NOON.after(15).wall

    evidence = answered(story, Case(now=NOON.after(25), last_activity_at=active))["evidence"]

    assert (NOON.after(20).wall, 1, NOON.after(80).wall, active) == (
        evidence["last_renewed_at"], evidence["renewals"], evidence["lease_deadline"], evidence["last_activity_at"],
    )  # fmt: skip


def test_a_clock_says_since_when_it_runs_and_when_it_is_due() -> None:
    story = held().renewed(at=20)

    (clock,) = answered(story)["clocks"]

    about = {"workspace_id": None, "turn": None}
    assert {"name": "lease", "since": NOON.after(20).wall, "due_at": NOON.after(80).wall, **about} == clock


def test_a_broken_connection_says_when_it_broke_and_why_the_whole_ttl_is_waited() -> None:
    case = Case(now=NOON.after(6), broke_at=NOON.after(5).wall)
    told, others = answered(held(policy=ONCE), case), answered(held(), case)

    assert (
        "the connection of worker 'w1' under fence 1 broke at 2026-01-01T12:00:05.000Z, and its whole ttl is waited, "
        "because this is the run's last attempt; unless it renews by" in told["next"]
    )
    assert "goes on" not in told["next"]
    assert (True, NOON.after(5).wall) == (told["evidence"]["detached"], told["evidence"]["detached_at"])
    assert "broke at 2026-01-01T12:00:05.000Z; unless it renews" in others["next"]


def test_every_clock_of_every_state_has_both_instants() -> None:
    clocks = [clock for tell, *_ in CASES.values() for clock in answered(tell())["clocks"]]

    assert all(isinstance(clock["since"], datetime) and isinstance(clock["due_at"], datetime) for clock in clocks)


def test_what_blocks_a_run_that_is_due_is_said_in_the_words_of_whoever_knows() -> None:
    story = told()

    asked = Blocked("nobody_asks", "nobody asks", "somebody asks", {})
    blocked = Blocked("queue_full", "queue 'default' has reached its limit of 1 lease", "that lease ends", {})
    coming = answered(story, Case(now=story.now, blocked=(asked, blocked)))["next"]

    assert coming == (
        "it is due and is not granted yet, because queue 'default' has reached its limit of 1 lease; that changes "
        "once that lease ends, and an operator may pause or cancel it before."
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.02, "0.1 s"), (4.2, "4.2 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min"),
        (200, "3 min 20 s"), (3_600, "1 h"), (3_725, "1 h 2 min"), (93_600, "1 d 2 h"), (86_460, "1 d"),
    ],
)  # fmt: skip
def test_the_time_until_an_instant_is_said_in_the_two_units_that_matter(seconds: float, said: str) -> None:
    story = told(run_after=NOON.after(seconds).wall)

    assert f"Z (in {said}); " in answered(story, Case(now=NOON))["next"]


def test_a_run_whose_lease_is_over_says_since_when_and_who_may_take_it() -> None:
    coming = answered(held(), Case(now=NOON.after(61)))["next"]

    assert coming == (
        "the lease of worker 'w1' under fence 1 is over since 2026-01-01T12:01:01.000Z: the run is queued again at "
        "once, with 1 of 3 attempts failed; a worker that claims the run by id may take it over at once."
    )


def test_a_missing_mark_is_shown_as_a_lease_that_is_as_good_as_new() -> None:
    story = held()
    unmarked = msgspec.structs.replace(story.standing, mark=None)

    (clock,) = why(unmarked, story.facts, Case(now=NOON.after(500)))["clocks"]

    assert ("lease", NOON.after(560).wall) == (clock["name"], clock["due_at"])


def test_the_chain_of_reasons_has_a_bound_and_keeps_the_submission() -> None:
    story = told()
    for _ in range(REASONS_MAX):
        story.then("pause").then("resume")
    each_by_the_last = [
        msgspec.structs.replace(
            recorded, meta=msgspec.structs.replace(recorded.meta, causation_id=f"fact-{recorded.position - 1}")
        )
        for recorded in story.facts
    ]

    found = reasons(story.standing, History(each_by_the_last))

    assert REASONS_MAX == len(found)
    assert (1, len(story.facts)) == (found[0].position, found[-1].position)


def test_an_unknown_run_has_no_reasons() -> None:
    with pytest.raises(RunUnknown):
        why(Story().standing, [], Case(now=NOON))
