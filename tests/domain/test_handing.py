"""Handing on: expiry, detachment, slices, hand-backs and parking; the run goes on, and it is said what that costs."""

import pytest

from domain import handing
from domain.effects import EffectsMadeAmbiguous
from domain.lease import FenceLost, Held, LeaseExpired, LeaseReleased, LeaseRevoked, SliceEnded
from domain.run import Queued, WrongState
from domain.run_facts import (
    AttemptEnded,
    ParkKind,
    PartialSalvaged,
    RunClosed,
    RunParked,
    RunResumed,
    RunSettled,
    State,
    Work,
    WorkerTimeout,
)
from domain.standing import Presented, Remains
from domain.values import Moment
from tests.domain.commands import cancel, claim, close, end_slice, expire, hand_back, park, pause, resume, write
from tests.domain.facts import cancel_asked, expired, granted, handed_back, intended, parked, pause_asked, submitted
from tests.domain.facts import sliced as slice_ended
from tests.domain.kit import NOON, Decide, Told, given, lease_citation, noon, run_citation, text


@pytest.mark.origin("B2", "K3")
def test_nothing_expires_before_its_deadline() -> None:
    given(submitted(), granted()).when(expire(), at=59.999).then_nothing()


@pytest.mark.origin("B2", "B18", "D39", "H5")
def test_an_expired_run_is_queued_due_at_once_and_the_attempt_is_counted() -> None:
    outcome = given(submitted(), granted()).when(expire(), at=60)

    after = outcome.then(LeaseExpired, WorkerTimeout, AttemptEnded).now_it_is("queued", fence=1)
    assert Queued(due_at=noon(60), reason="expired") == after.run.phase
    assert 1 == after.run.failed_attempts


@pytest.mark.origin("B23", "K3", "D41")
def test_an_expiry_carries_the_mark_that_it_was_judged_by() -> None:
    outcome = given(submitted(), granted()).renewed(at=20).renewed(at=40).when(expire(), at=100.5)

    outcome.then(
        LeaseExpired(
            fence=1, worker="ada", last_renewed_at=noon(40), renewals=2, detached=False, expired_at=noon(100.5)
        ),
        WorkerTimeout,
        AttemptEnded,
    )
    assert "lease_expired" == outcome.fact(WorkerTimeout).kind
    assert (lease_citation(2),) == outcome.fact(WorkerTimeout).cites
    assert (lease_citation(2), run_citation(3)) == outcome.fact(AttemptEnded).cites


def test_the_timeout_tells_what_it_was_judged_by_in_words_for_people() -> None:
    timeout = given(submitted(), granted()).renewed(at=20).when(expire(), at=80).fact(WorkerTimeout)

    assert (1, "ada") == (timeout.fence, timeout.worker)
    assert {
        "ttl_s": 60.0, "granted_at": noon().isoformat(), "last_renewed_at": noon(20).isoformat(), "renewals": 1,
    } == timeout.marks  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ((submitted(max_attempts=1), granted()), "aborted"),
        ((submitted(), granted(), cancel_asked()), "cancelled"),
        ((submitted(), granted(), pause_asked()), "paused"),
        ((submitted(), granted(), parked(kept=True)), "waiting_input"),
    ],
    ids=["spent", "cancelled", "paused", "parked"],
)
def test_an_end_after_which_nothing_is_queued_names_no_due_instant(facts: tuple[Told, ...], state: State) -> None:
    outcome = given(*facts).when(expire(), at=60)

    outcome.after.now_it_is(state)
    assert outcome.fact(AttemptEnded).due_at is None


@pytest.mark.origin("K13", "H10")
def test_a_lease_without_a_mark_does_not_expire() -> None:
    given(submitted(), granted()).unmarked().when(expire(), at=3600).then_nothing()


@pytest.mark.origin("A28", "K5")
def test_an_expiry_is_judged_by_the_monotonic_clock_and_not_by_the_wall() -> None:
    held = given(submitted(), granted())

    for wall in (-3600, 3600):
        held.when(_at(expire(), wall, mono=59.999)).then_nothing()
        held.when(_at(expire(), wall, mono=60)).then(LeaseExpired, WorkerTimeout, AttemptEnded)


@pytest.mark.origin("B20", "B33", "R11")
def test_the_expiry_that_spends_the_last_attempt_aborts_the_run_and_promotes_its_partial_once() -> None:
    outcome = given(submitted(max_attempts=2), granted(), expired(), granted("bob", 2, at=60)).partial("half", 2)
    spent = outcome.when(expire(), at=120)

    after = spent.then(
        LeaseExpired, WorkerTimeout, AttemptEnded, PartialSalvaged(fence=2, partial=text("half")), RunSettled,
        LeaseRevoked(fence=3, worker=None, cause="attempts_exhausted"),
    ).now_it_is("aborted", fence=3)  # fmt: skip
    assert (text("half"), 2) == (after.run.result, after.run.failed_attempts)


@pytest.mark.origin("A35", "A19")
def test_an_abort_cites_the_expiry_the_timeout_and_the_end_that_it_follows_from() -> None:
    settled = given(submitted(max_attempts=1), granted()).when(expire(), at=60).fact(RunSettled)

    assert ("aborted", "attempts_exhausted") == (settled.state, settled.reason)
    assert (lease_citation(2), run_citation(3), run_citation(4)) == settled.cites


def test_an_abort_without_a_partial_has_no_result() -> None:
    after = (
        given(submitted(max_attempts=1), granted())
        .when(expire(), at=60)
        .then(LeaseExpired, WorkerTimeout, AttemptEnded, RunSettled, LeaseRevoked)
    )

    assert text(None) == after.run.result


@pytest.mark.origin("B19", "K9")
def test_a_hand_over_promotes_no_partial() -> None:
    saved = given(submitted(), granted()).partial("half")

    saved.when(expire(), at=60).then(LeaseExpired, WorkerTimeout, AttemptEnded)
    saved.when(hand_back(), at=5).then(LeaseReleased, AttemptEnded)
    saved.when(park(), at=5).then(AttemptEnded, LeaseReleased, RunParked)


def test_an_attempts_end_vouches_for_what_it_had_produced() -> None:
    work = Work(output_chunks=3, output_bytes=42, output_digest="ab", partials=1, partial_digest="cd")
    held = given(submitted(), granted()).having(Remains(work=work))

    for ending, at in ((expire(), 60), (hand_back(), 5), (park(), 5)):
        assert work == held.when(ending, at).fact(AttemptEnded).work


@pytest.mark.origin("B21", "B26", "R9")
def test_every_end_of_an_attempt_makes_its_unfinished_effects_ambiguous_before() -> None:
    begun = given(submitted(), granted(), intended("mail"), intended("pay"))

    for ending, at in ((expire(), 60), (hand_back(), 5), (park(), 5)):
        outcome = begun.when(ending, at)
        kinds = [type(fact) for fact in outcome.facts]
        assert ("mail", "pay") == outcome.fact(EffectsMadeAmbiguous).keys
        assert kinds.index(EffectsMadeAmbiguous) < kinds.index(AttemptEnded)


def test_parking_with_the_lease_kept_ends_nothing_so_its_effects_stay_open() -> None:
    begun = given(submitted(), granted(), intended("mail"))

    after = begun.when(park(keep=True), at=5).then(RunParked).now_it_is("waiting_input", fence=1)
    assert ("mail",) == after.standing.effects.intended


def test_a_kept_lease_that_expires_leaves_the_run_parked_and_counts_nothing() -> None:
    kept = given(submitted(max_attempts=1), granted(), intended("mail"), parked("waiting_peer", kept=True))

    after = kept.when(expire(), at=60).then(LeaseExpired, EffectsMadeAmbiguous, AttemptEnded)
    after.now_it_is("waiting_peer", fence=1)
    assert 0 == after.run.failed_attempts
    assert after.run.acting is None


@pytest.mark.origin("A28")
def test_a_detachment_brings_the_deadline_forward_to_the_reconnect_window_and_never_back() -> None:
    held = given(submitted(), granted())

    held.detached(at=10).when(expire(), at=10.999).then_nothing()
    held.detached(at=10).when(expire(), at=11).then(LeaseExpired, WorkerTimeout, AttemptEnded)
    held.detached(at=59.5).when(expire(), at=60).then(LeaseExpired, WorkerTimeout, AttemptEnded)


def test_a_detached_worker_is_named_as_such_and_its_attempt_is_counted_and_handed_on_at_once() -> None:
    outcome = given(submitted(), granted()).detached(at=10).when(expire(), at=11)

    after = outcome.after
    assert outcome.fact(LeaseExpired).detached
    assert ("detached", "detached") == (outcome.fact(WorkerTimeout).kind, outcome.fact(AttemptEnded).outcome)
    assert (Queued(due_at=noon(11), reason="detached"), 1) == (after.run.phase, after.run.failed_attempts)


def test_a_renewal_after_a_detachment_restores_the_full_ttl() -> None:
    back = given(submitted(), granted()).detached(at=10).renewed(at=10.5)

    back.when(expire(), at=70.499).then_nothing()
    assert not back.when(expire(), at=70.5).fact(LeaseExpired).detached


def test_a_detachment_never_spends_the_last_attempt_so_the_full_ttl_is_waited() -> None:
    detached = given(submitted(max_attempts=1), granted()).detached(at=10)

    detached.when(expire(), at=59.999).then_nothing()
    spent = detached.when(expire(), at=60)
    spent.then(LeaseExpired, WorkerTimeout, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("aborted")
    assert not spent.fact(LeaseExpired).detached


def test_a_detachment_of_a_last_attempt_that_is_parked_or_past_its_slice_costs_nothing_and_need_not_wait() -> None:
    last = submitted(max_attempts=1)
    kept = given(last, granted(), parked(kept=True)).detached(at=10)
    past = given(last, granted(slice_ends=5), slice_ended(at=5)).detached(at=10)

    kept.when(expire(), at=11).then(LeaseExpired, AttemptEnded).now_it_is("waiting_input")
    past.when(expire(), at=11).then(LeaseExpired, AttemptEnded).now_it_is("queued")


@pytest.mark.origin("B6")
def test_a_slice_ends_once() -> None:
    held = given(submitted(max_hold_s=30.0), granted(slice_ends=30))

    after = held.when(end_slice(), at=30).then(SliceEnded(fence=1, worker="ada", slice_ends_at=noon(30)))
    after.now_it_is("running", fence=1).when(end_slice(), at=31).then_nothing()


def test_a_lease_without_a_slice_has_no_end_of_one() -> None:
    given(submitted(), granted()).when(end_slice(), at=3600).then_nothing()


@pytest.mark.origin("B6", "K7")
def test_an_unanswered_slice_hands_the_run_on_after_a_second_and_counts_nothing() -> None:
    over = given(submitted(max_attempts=1), granted(slice_ends=30), slice_ended())

    after = over.when(expire(), at=60).then(LeaseExpired, AttemptEnded).now_it_is("queued", fence=1)
    assert Queued(due_at=noon(61), reason="slice_ended") == after.run.phase
    assert 0 == after.run.failed_attempts


@pytest.mark.origin("B6")
def test_in_the_last_ttl_after_a_slice_everything_of_the_holder_is_still_accepted() -> None:
    over = given(submitted(), granted(slice_ends=30), slice_ended())

    over.when(write(), at=40).then_nothing()
    over.when(park(), at=40).then(AttemptEnded, LeaseReleased, RunParked)
    over.when(close(), at=40).then(RunClosed, LeaseReleased).now_it_is("succeeded")


def test_a_kept_leases_slice_runs_on_while_the_run_is_parked() -> None:
    kept = given(submitted(), granted(slice_ends=30), parked(kept=True))

    kept.when(end_slice(), at=30).then(SliceEnded).now_it_is("waiting_input")


@pytest.mark.origin("D24", "D32", "K7")
def test_a_hand_back_queues_the_run_as_a_continuation_one_second_later_and_counts_nothing() -> None:
    after = given(submitted(max_attempts=1), granted()).when(hand_back(), at=5).then(LeaseReleased, AttemptEnded)

    after.now_it_is("queued", fence=1)
    assert Queued(due_at=noon(6), reason="handed_back") == after.run.phase
    assert 0 == after.run.failed_attempts


def test_a_lease_that_was_handed_back_is_nobodys_though_its_fence_is_still_in_force() -> None:
    back = given(submitted(), granted(), handed_back())

    refusal = back.when(hand_back(fence=1, by="ada"), at=12).then_refused(FenceLost)
    back.when(close(fence=1, by="ada"), at=12).then_refused(FenceLost)

    assert (1, 1, None, "handed_back") == (refusal.presented, refusal.current, refusal.holder, refusal.reason)


@pytest.mark.origin("B13", "K15", "C33")
def test_parking_gives_the_lease_up_and_waits_with_the_question() -> None:
    after = given(submitted(), granted()).when(park("waiting_input"), at=5).then(
        AttemptEnded, LeaseReleased(fence=1, worker="ada", cause="parked"), RunParked
    )  # fmt: skip

    after.now_it_is("waiting_input", fence=1)
    assert after.run.acting is None
    assert 0 == after.run.failed_attempts
    after.when(write(fence=1, by="ada"), at=6).then_refused(FenceLost)


def test_a_holder_that_kept_its_lease_may_write_close_hand_back_and_park_anew() -> None:
    kept = given(submitted(), granted(), parked("waiting_input", kept=True))

    kept.when(write(fence=1, by="ada"), at=20).then_nothing()
    kept.when(close(), at=20).then(RunClosed, LeaseReleased).now_it_is("succeeded")
    kept.when(hand_back(), at=20).then(LeaseReleased, AttemptEnded).now_it_is("queued")
    kept.when(park("waiting_takeover"), at=20).then(AttemptEnded, LeaseReleased, RunParked).now_it_is(
        "waiting_takeover"
    )


def test_parking_again_with_the_same_question_and_the_lease_still_kept_changes_nothing() -> None:
    kept = given(submitted(), granted()).when(park("waiting_input", keep=True), at=5).after

    kept.when(park("waiting_input", keep=True), at=6).then_nothing()


def test_a_worker_pauses_its_run_only_when_it_was_asked_to() -> None:
    held = given(submitted(), granted())

    held.when(park("paused"), at=5).then_refused(WrongState)
    asked = held.when(pause(), at=5).after
    asked.when(park("paused"), at=6).then(AttemptEnded, LeaseReleased, RunParked).now_it_is("paused")
    kept = asked.when(park("paused", keep=True), at=6).then(RunParked).now_it_is("paused")
    kept.when(resume(), at=7).then(RunResumed).now_it_is("running", fence=1)


def test_a_worker_that_pauses_its_run_when_asked_to_may_leave_a_question() -> None:
    wish = handing.Park(kind="paused", question=text("which one?"))
    asked = given(submitted(), granted(), pause_asked())

    waits = asked.when(lambda standing, rest, now: handing.park(standing, Presented(fence=1), wish, rest, now), at=6)

    assert text("which one?") == waits.fact(RunParked).question


@pytest.mark.parametrize("kind", ["waiting_input", "waiting_peer", "waiting_takeover"])
def test_a_pause_that_is_asked_for_survives_the_parking_of_its_run(kind: ParkKind) -> None:
    after = given(submitted(), granted(), pause_asked()).when(park(kind), at=6).after.now_it_is(kind)

    assert after.run.pause_asked
    claimed = after.when(claim("bob"), at=7).after
    assert claimed.run.pause_asked


@pytest.mark.parametrize(("ending", "at"), [(expire(), 60), (hand_back(), 6)], ids=["expiry", "hand-back"])
def test_a_pending_pause_makes_the_run_paused_instead_of_queued(ending: Decide, at: float) -> None:
    asked = given(submitted(), granted(), pause_asked())

    after = asked.when(ending, at).after.now_it_is("paused")
    assert not after.run.pause_asked


def test_a_pending_pause_does_not_save_a_run_whose_attempts_are_spent() -> None:
    given(submitted(max_attempts=1), granted(), pause_asked()).when(expire(), at=60).after.now_it_is("aborted")


@pytest.mark.origin("A22", "D27", "K10")
@pytest.mark.parametrize(
    ("ending", "at"), [(expire(), 60), (hand_back(), 6), (park(), 6)], ids=["expiry", "hand-back", "parking"]
)
def test_a_pending_cancel_settles_the_run_as_soon_as_its_attempt_ends(ending: Decide, at: float) -> None:
    asked = given(submitted(), granted(), cancel_asked()).partial("half")

    after = asked.when(ending, at).after.now_it_is("cancelled", fence=2)
    assert text("half") == after.run.result


@pytest.mark.parametrize(
    ("ending", "at"), [(expire(), 60), (hand_back(), 6), (park(), 6)], ids=["expiry", "hand-back", "parking"]
)
def test_a_run_settled_by_a_pending_cancel_cites_the_wish(ending: Decide, at: float) -> None:
    asked = given(submitted(), granted(), cancel_asked())

    assert run_citation(3) == asked.when(ending, at).fact(RunSettled).cites[0]


def test_a_run_parked_with_its_lease_kept_stays_so_under_a_pending_cancel_until_the_lease_ends() -> None:
    asked = given(submitted(), granted(), cancel_asked())

    kept = asked.when(park(keep=True), at=6).then(RunParked).now_it_is("waiting_input")
    kept.when(expire(), at=60).then(LeaseExpired, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("cancelled")


def test_a_cancel_outweighs_a_pause_and_a_last_attempt() -> None:
    both = given(submitted(max_attempts=1), granted(), pause_asked()).when(cancel(), at=7).after

    both.when(expire(), at=60).after.now_it_is("cancelled")


def test_the_next_worker_holds_under_its_own_fence_and_the_one_before_writes_nothing() -> None:
    taken = given(submitted(), granted("ada"), expired(), granted("bob", 2, at=61))

    refusal = taken.when(write(fence=1, by="ada"), at=62).then_refused(FenceLost)
    assert isinstance(taken.standing.lease, Held)
    assert (1, 2, "bob") == (refusal.presented, refusal.current, refusal.holder)


def _at(decide: Decide, wall: float, *, mono: float) -> Decide:
    """The command at a moment whose two scales have come apart: seconds after noon on each."""
    return lambda standing, remains, _: decide(standing, remains, Moment(noon(wall), NOON.mono + mono))
