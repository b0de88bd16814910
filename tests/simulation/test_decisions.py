"""One run under every command in any order, at any moment: no history of decisions breaks a law.

A rule machine over the domain alone. Each rule asks one thing of the run with whatever fence, worker or token it likes;
a refusal changes nothing, and whatever is decided is held against the laws by the tests' own kit. Between two
commands time passes, leases are renewed or detached, marks are lost, partials and effects come.
"""

from typing import Literal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from domain import effects as ledgers
from domain.effects import ClaimEffect
from domain.lease import Held
from domain.refusal import Refusal
from domain.run import Run, Running
from domain.run_facts import TERMINAL, ParkKind
from domain.standing import RunDraft, Standing
from domain.values import digest
from simulation.laws import check_standing
from tests.domain import commands
from tests.domain.commands import Outcome
from tests.domain.facts import submitted
from tests.domain.kit import NOON, Decide, Given, given, text
from tests.simulation.searching import searching

FENCES = st.integers(0, 6)
WORKERS = st.sampled_from(["ada", "bob", None])
TOKENS = st.sampled_from(["t1", "t2"])
KINDS: st.SearchStrategy[ParkKind] = st.sampled_from(["waiting_input", "waiting_peer", "waiting_takeover", "paused"])
OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(["succeeded", "failed"])
RESULTS = st.sampled_from([None, "whole"])


class OneRun(RuleBasedStateMachine):
    """A run, and everybody who may ask something of it."""

    def __init__(self) -> None:
        super().__init__()
        self.given: Given = given()
        self.seconds = 0.0
        self.result: object = None

    @initialize(
        attempts=st.integers(1, 3),
        by=st.sampled_from(["worker", "leader"]),
        hold=st.sampled_from([None, 90.0]),
        due=st.sampled_from([0.0, 30.0]),
    )
    def submit(self, attempts: int, by: str, hold: float | None, due: float) -> None:
        self.given = given(submitted(due=due, max_attempts=attempts, verdict_by=by, max_hold_s=hold))

    def ask(self, decide: Decide) -> None:
        outcome = self.given.when(decide, self.seconds)
        try:
            self.given = outcome.after
        except Refusal:
            return

    @rule(worker=st.sampled_from(["ada", "bob"]), cause=st.sampled_from(["queue", "id"]))
    def claim(self, worker: str, cause: Literal["queue", "id"]) -> None:
        self.ask(commands.claim(worker, cause))

    @rule(worker=st.sampled_from(["ada", "bob"]), token=TOKENS)
    def reserve(self, worker: str, token: str) -> None:
        self.ask(commands.reserve(worker, token))

    @rule(token=TOKENS, ending=st.sampled_from([commands.bind, commands.cancel_reservation, commands.lapse]))
    def end_reservation(self, token: str, ending: object) -> None:
        assert callable(ending)
        self.ask(ending(token))

    @rule(kind=KINDS, fence=FENCES, by=WORKERS, keep=st.booleans())
    def park(self, kind: ParkKind, fence: int, by: str | None, keep: bool) -> None:
        self.ask(commands.park(kind, fence, by, keep=keep))

    @rule(fence=FENCES, by=WORKERS)
    def hand_back(self, fence: int, by: str | None) -> None:
        self.ask(commands.hand_back(fence, by))

    @rule(outcome=OUTCOMES, fence=FENCES, by=WORKERS, result=RESULTS, retryable=st.booleans())
    def close(
        self, outcome: Literal["succeeded", "failed"], fence: int, by: str | None, result: object, retryable: bool
    ) -> None:
        self.ask(commands.close(outcome, fence, by, result=result, retryable=retryable))

    @rule(
        wish=st.sampled_from(
            [commands.cancel, commands.cancel_due, commands.pause, commands.resume, commands.answer, commands.expire,
             commands.end_slice]
        )
    )  # fmt: skip
    def steer(self, wish: object) -> None:
        assert callable(wish)
        self.ask(wish())

    @rule(said=OUTCOMES, result=RESULTS)
    def judge(self, said: Outcome, result: object) -> None:
        self.ask(commands.verdict(said, result))

    @rule(fence=FENCES, by=WORKERS)
    def report_stop(self, fence: int, by: str | None) -> None:
        self.ask(commands.report_stop("saved", fence, by))

    @precondition(lambda self: isinstance(self.given.standing.lease, Held) and self.acts())
    @rule(key=st.sampled_from(["mail", "pay"]))
    def begin_effect(self, key: str) -> None:
        def decide(standing: Standing, _: object, now: object) -> RunDraft:
            command = ClaimEffect(key=key, payload_digest=digest(text(1)), fence=standing.lease.fence)
            draft = standing.draft()
            for fact in ledgers.claim(standing.effects, command, NOON.wall)[2]:
                draft.on_effects(fact)
            return draft

        self.ask(decide)

    def acts(self) -> bool:
        run = self.given.standing.run
        return isinstance(run, Run) and isinstance(run.phase, Running)

    @rule(seconds=st.sampled_from([0.5, 1.0, 29.5, 30.0, 60.0, 300.0]))
    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds

    @precondition(lambda self: isinstance(self.given.standing.lease, Held) and self.given.standing.mark is not None)
    @rule(how=st.sampled_from(["renewed", "detached", "lost"]))
    def hear(self, how: str) -> None:
        match how:
            case "renewed":
                self.given = self.given.renewed(self.seconds)
            case "detached":
                self.given = self.given.detached(self.seconds)
            case _:
                self.given = self.given.unmarked()

    @rule(value=st.sampled_from(["half", None]))
    def save_partial(self, value: object) -> None:
        self.given = self.given.partial(value, self.given.standing.lease.fence)

    @invariant()
    def run_lease_and_effects_agree(self) -> None:
        check_standing(self.given.standing)

    @invariant()
    def a_result_that_is_final_stays(self) -> None:
        run = self.given.standing.run
        if isinstance(run, Run) and run.state in TERMINAL:
            self.result = run.result if self.result is None else self.result
            assert self.result == run.result


pytestmark = pytest.mark.origin("A32", "D59", "D61", "R6", "R11")
TestEveryOrder = OneRun.TestCase
TestEveryOrder.settings = searching(examples=400, steps=40)
