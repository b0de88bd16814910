"""One run and what it stands on, under every report and command in any order: no history breaks a law.

A rule machine over the domain alone. Watchers report whatever they like, true or not, singly and in heaps; holders
place, attach, take turns and fall silent; leaders cancel and judge; clocks run out. A refusal changes nothing. Every
decision is held against the laws by the kit, and the whole history against what only it can show: one loss and one body
for a workspace, one end for an attempt and for a turn, states that are what their facts say.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from domain.decider import fold
from domain.observing import Observation
from domain.refusal import Refusal
from domain.run_facts import AttemptEnded, RunClosed, RunSettled
from domain.turn_facts import TurnCompleted, TurnCut, TurnFailed
from domain.values import Fact
from domain.workspace_facts import LOSS_REASONS, LastSeen, WorkspaceAttached, WorkspaceLost
from journal.topics import FOLDS, prefix_of
from simulation.laws import check_standing
from tests.domain import commands, ground_facts
from tests.domain.facts import submitted
from tests.domain.kit import Decide, Given, given
from tests.simulation.searching import searching

GROUNDS = st.sampled_from(["w1", "w2"])
BEHIND = st.sampled_from([0, 0, 0, 1])
"""How far a presented fence is behind the one in force."""
BODIES = st.sampled_from([None, "body-1", "body-1", "body-2"])
COUNTS = st.sampled_from([None, 0, 1, 2, 3])
REASONS = st.sampled_from([None, *LOSS_REASONS])
ENDS = st.builds(
    Observation, kind=st.sampled_from(["gone", "ended", "replaced"]), identity=BODIES, reason=REASONS,
    exit_code=st.sampled_from([None, 0, 3]),
)  # fmt: skip
SIGHTS = st.builds(
    Observation, kind=st.sampled_from(["present", "harness_restarted"]), identity=BODIES, incarnation=COUNTS,
    reason=st.sampled_from([None, "OOMKilled"]), version=st.sampled_from([None, "v1", "v2"]),
)  # fmt: skip
VIEWS = st.builds(Observation, kind=st.sampled_from(["watch_dropped", "synced"]))
TURN_ENDS = (TurnCompleted, TurnFailed, TurnCut)
LATE = ("expired", "detached", "slice_ended")


class OneGround(RuleBasedStateMachine):
    """A run, its workspaces, and everybody who may say something of them."""

    def __init__(self) -> None:
        super().__init__()
        self.given: Given = given()
        self.seconds = 0.0
        self.recorded: list[tuple[str, Fact]] = []

    @initialize(
        policy=st.sampled_from(["settle_lost", "retry_fresh", "park"]),
        attempts=st.integers(1, 3),
        by=st.sampled_from(["worker", "leader"]),
        hold=st.sampled_from([None, 90.0]),
        quiet=st.sampled_from(["report", "fail_attempt"]),
        provider=st.sampled_from(["external", "directory", "kubernetes"]),
    )
    def begin(  # noqa: PLR0913  (one for each thing that its owner decided)
        self, policy: str, attempts: int, by: str, hold: float | None, quiet: str, provider: Any
    ) -> None:
        wish = submitted(
            on_workspace_lost=policy, max_attempts=attempts, verdict_by=by, max_hold_s=hold, on_quiet=quiet
        )
        self.given = given(wish)
        self.recorded = [("run-r1", wish)]
        self.ask(commands.claim("ada"))
        self.ask(ground_facts.place(workspace_id="w1", provider=provider))
        if provider != "external":
            self.ask(ground_facts.attach())

    def ask(self, decide: Decide) -> None:
        outcome = self.given.when(decide, self.seconds)
        try:
            self.given = outcome.after
        except Refusal:
            return
        self.recorded += outcome.entries

    def fence(self, behind: int) -> int:
        """A fence that a worker may present."""
        return self.given.standing.lease.fence - behind

    @rule(workspace=GROUNDS, provider=st.sampled_from(["external", "directory", "kubernetes"]), behind=BEHIND)
    def place(self, workspace: str, provider: Any, behind: int) -> None:
        if all(each.workspace_id != workspace for each in self.given.standing.workspaces):
            self.ask(ground_facts.place(self.fence(behind), workspace, provider=provider))

    @rule(workspace=GROUNDS, body=st.sampled_from(["body-1", "body-1", "body-2"]), count=st.integers(0, 3))
    def attach(self, workspace: str, body: str, count: int) -> None:
        self.ask(ground_facts.attach(body, count, workspace))

    @rule(workspace=GROUNDS, report=st.lists(st.one_of(SIGHTS, SIGHTS, VIEWS), min_size=1, max_size=4))
    def see(self, workspace: str, report: list[Observation]) -> None:
        self.ask(ground_facts.observe(*report, workspace_id=workspace))

    @rule(workspace=GROUNDS, report=st.lists(st.one_of(SIGHTS, VIEWS), max_size=2), end=ENDS, last=REASONS)
    def see_it_end(self, workspace: str, report: list[Observation], end: Observation, last: str | None) -> None:
        heard = LastSeen(reason=last)
        self.ask(ground_facts.observe(*report, end, workspace_id=workspace, last=heard))

    @rule(
        workspace=GROUNDS,
        ask=st.sampled_from(["wait", "provision", "body", "unsee", "reap", "time out", "fault", "release", "keep"]),
    )
    def manage(self, workspace: str, ask: str) -> None:
        asks: dict[str, Decide] = {
            "wait": ground_facts.wait_for(workspace_id=workspace),
            "provision": ground_facts.provision(workspace_id=workspace),
            "body": ground_facts.provision("body-1", workspace),
            "unsee": ground_facts.unsee(workspace_id=workspace),
            "reap": ground_facts.reap(workspace),
            "time out": ground_facts.time_out(workspace),
            "fault": ground_facts.fault(workspace_id=workspace),
            "release": ground_facts.release(workspace_id=workspace),
            "keep": ground_facts.release(keep=True, workspace_id=workspace),
        }
        self.ask(asks[ask])

    @rule(workspace=st.sampled_from(["w1", "w1", "w2", None]), behind=BEHIND)
    def admit(self, workspace: str | None, behind: int) -> None:
        self.ask(ground_facts.admit(workspace, self.fence(behind)))

    @rule(
        earlier=st.sampled_from([0, 0, 0, 1]),
        behind=BEHIND,
        ask=st.sampled_from(["waiting", "waiting", "busy", "answer_unread", "complete", "fail", "notice", "give up"]),
        mark=COUNTS,
    )
    def take_turns(self, earlier: int, behind: int, ask: Any, mark: int | None) -> None:
        turn, fence = self.given.run.turns.last - earlier, self.fence(behind)
        match ask:
            case "complete":
                self.ask(ground_facts.complete(turn, fence))
            case "fail":
                self.ask(ground_facts.fail(turn=turn, fence=fence))
            case "notice":
                self.ask(ground_facts.notice(turn=turn, fence=fence))
            case "give up":
                self.ask(ground_facts.give_up(turn))
            case state:
                self.ask(ground_facts.move(state, mark, turn, fence))

    @rule(seconds=st.sampled_from([0.0, 1.0, 60.0]), worker=st.sampled_from(["ada", "bob"]))
    def come_back(self, seconds: float, worker: str) -> None:
        self.seconds += seconds
        self.ask(commands.claim(worker))

    @rule(worker=st.sampled_from(["ada", "bob"]), cause=st.sampled_from(["queue", "id"]))
    def claim(self, worker: str, cause: Any) -> None:
        self.ask(commands.claim(worker, cause))

    @rule(ask=st.sampled_from(["park", "park keeping", "hand back", "close", "fail"]), behind=BEHIND)
    def let_go(self, ask: str, behind: int) -> None:
        fence = self.fence(behind)
        asks: dict[str, Decide] = {
            "park": commands.park(fence=fence),
            "park keeping": commands.park("waiting_takeover", fence, keep=True),
            "hand back": commands.hand_back(fence),
            "close": commands.close(fence=fence),
            "fail": commands.close("failed", fence),
        }
        self.ask(asks[ask])

    @rule(
        wish=st.sampled_from(
            [commands.cancel, commands.cancel_due, commands.pause, commands.resume, commands.resume, commands.answer,
             commands.answer, commands.tell, commands.leader_gone, commands.verdict, commands.reserve, commands.bind,
             commands.bind, commands.lapse]
        )
    )  # fmt: skip
    def steer(self, wish: Any) -> None:
        self.ask(wish())

    @rule(seconds=st.sampled_from([1.0, 30.0, 60.0]), wish=st.sampled_from([commands.expire, commands.end_slice]))
    def pass_time(self, seconds: float, wish: Any) -> None:
        self.seconds += seconds
        self.ask(wish())

    @rule(how=st.sampled_from(["renewed", "detached"]))
    def hear(self, how: str) -> None:
        standing = self.given.standing
        if hasattr(standing.lease, "ttl_s") and standing.mark is not None:
            self.given = getattr(self.given, how)(self.seconds)

    @invariant()
    def run_and_lease_agree(self) -> None:
        check_standing(self.given.standing)

    @invariant()
    def the_history_tells_of_one_loss_and_one_body_and_one_end_each(self) -> None:
        losses = Counter(stream for stream, fact in self.recorded if isinstance(fact, WorkspaceLost))
        bodies = Counter(stream for stream, fact in self.recorded if isinstance(fact, WorkspaceAttached))
        turns = Counter(
            fact.turn for _, fact in self.recorded if isinstance(fact, TurnCompleted | TurnFailed | TurnCut)
        )
        settled = sum(isinstance(fact, RunSettled) for _, fact in self.recorded)
        assert max([*losses.values(), *bodies.values(), *turns.values(), settled], default=0) <= 1

    @invariant()
    def an_attempt_has_one_end_which_only_a_late_close_replaces(self) -> None:
        ends: dict[int, str] = {}
        for _, fact in self.recorded:
            if isinstance(fact, AttemptEnded):
                assert fact.fence not in ends
                ends[fact.fence] = fact.outcome
            elif isinstance(fact, RunClosed):
                assert fact.fence not in ends or (fact.late and ends[fact.fence] in LATE)
                ends[fact.fence] = "closed"

    @invariant()
    def a_cancelled_run_leaves_no_body_that_nobody_let_go(self) -> None:
        run = self.given.run
        if run.state == "cancelled" and run.reason == "cancelled":
            assert all(each.teardown or each.kept for each in self.given.standing.workspaces)

    def teardown(self) -> None:
        """What was recorded, folded anew, is what was live."""
        streams: dict[str, list[Fact]] = {}
        for stream, fact in self.recorded:
            streams.setdefault(stream, []).append(fact)
        standing = self.given.standing
        live: dict[str, Any] = {"run-r1": standing.run, "lease-r1": standing.lease, "effects-r1": standing.effects}
        live |= {f"workspace-{each.workspace_id}": each for each in standing.workspaces}
        for stream, facts in streams.items():
            how = FOLDS[prefix_of(stream)]
            assert live[stream] == fold(how.evolve, how.initial, facts)


pytestmark = pytest.mark.origin("C5", "C6", "C11", "C20", "R12", "R13", "R14", "R15", "R16", "R17", "R18", "D61")
TestEveryOrder = OneGround.TestCase
TestEveryOrder.settings = searching(examples=400, steps=40)
