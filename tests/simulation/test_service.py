"""The whole service under every interleaving that Hypothesis finds: no law is broken, and its views agree.

A rule machine over the real application on a memory journal. Each rule is one step of the world: a message now, late,
twice, or side by side with others; time, noticed or not; clocks that are set, skewed, slow or fast; a disk that fails
before, after or in the middle of an append; a restart; a kill; another node that takes over, is refused, or reads.
After every step the folded streams, the live index and the read models are compared with what was recorded; at the end
the journal is replayed and nothing may be left.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from simulation.cast import Cast
from simulation.ending import let_go
from simulation.world import World
from tests.simulation.searching import searching

T = TypeVar("T")
PLOTS = (
    "last_moment", "unexplained", "parked_ground", "restarted_turns", "late_list", "kept_and_answered", "late_effect",
    "taken_while_parked", "lost_before_the_verdict", "slow_session",
)  # fmt: skip


class Drawn:
    """Chooses what Hypothesis draws; less happens the further it shrinks."""

    def __init__(self) -> None:
        self.data: st.DataObject | None = None

    def pick(self, options: Sequence[T]) -> T:
        """One of these; the first one where nothing is to be drawn."""
        return options[0] if self.data is None else self.data.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        """Whether it happens."""
        return self.data is not None and self.data.draw(st.integers(0, 99)) >= 100 - percent


class Service(RuleBasedStateMachine):
    """A world of its own for each example."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.chooser = Drawn()
        self.world = World()
        self.cast = Cast(self.world, self.chooser)
        self.runner.run(self.cast.begin())

    def step(self, what: str, data: st.DataObject) -> None:
        self.chooser.data = data
        try:
            self.runner.run(self.cast.step(what))
        except AssertionError:
            note("\n".join(self.world.story))
            raise

    @rule(data=st.data())
    def a_worker_acts(self, data: st.DataObject) -> None:
        self.step("send_worker", data)

    @rule(data=st.data())
    def a_worker_acts_again(self, data: st.DataObject) -> None:
        self.step("send_worker", data)

    @rule(data=st.data(), what=st.sampled_from(["ground", "turn"]))
    def a_worker_sees_to_its_ground(self, data: st.DataObject, what: str) -> None:
        self.step(what, data)

    @rule(data=st.data(), what=st.sampled_from(["nature", "observer", "wanted"]))
    def bodies_end_and_somebody_watches(self, data: st.DataObject, what: str) -> None:
        self.step(what, data)

    @rule(data=st.data())
    def a_leader_steers(self, data: st.DataObject) -> None:
        self.step("send_leader", data)

    @rule(data=st.data())
    def several_act_together(self, data: st.DataObject) -> None:
        self.step("together", data)

    @rule(data=st.data(), what=st.sampled_from(["repeat", "late"]))
    def a_message_comes_late_or_twice(self, data: st.DataObject, what: str) -> None:
        self.step(what, data)

    @rule(data=st.data(), what=st.sampled_from(["beat", "freeze", "sign_off"]))
    def workers_are_heard_or_not(self, data: st.DataObject, what: str) -> None:
        self.step(what, data)

    @rule(data=st.data(), what=st.sampled_from(["time", "long_time", "unnoticed", "wall"]))
    def clocks_move(self, data: st.DataObject, what: str) -> None:
        self.step(what, data)

    @rule(data=st.data(), what=st.sampled_from(["restart", "disk", "kill", "hand_over", "audit"]))
    def the_service_fails(self, data: st.DataObject, what: str) -> None:
        self.step(what, data)

    @rule(data=st.data(), what=st.sampled_from(["freeze_service", "contend", "usurp", "beside", "checkpoint"]))
    def other_processes_come_near(self, data: st.DataObject, what: str) -> None:
        self.step(what, data)

    @rule(data=st.data(), what=st.sampled_from(["tune", "drift", "live"]))
    def clocks_differ(self, data: st.DataObject, what: str) -> None:
        self.step(what, data)

    @rule(
        data=st.data(),
        what=st.sampled_from(["last_moment", "unexplained", "parked_ground", "restarted_turns", "late_list"]),
    )
    def one_thing_follows_upon_another(self, data: st.DataObject, what: str) -> None:
        self.step(what, data)

    def teardown(self) -> None:
        try:
            if self.world.broken is None:
                self.chooser.data = None
                self.runner.run(let_go(self.cast))
        finally:
            self.runner.run(self.world.abandon())
            self.world.close()
            self.runner.close()


pytestmark = pytest.mark.origin(
    "B32", "D38", "D59", "D61", "K5", "K15", "R6", "R7", "R8", "R11", "R20", "R21", "H1", "H3"
)
TestEveryInterleaving = Service.TestCase
TestEveryInterleaving.settings = searching(examples=120, steps=50)
