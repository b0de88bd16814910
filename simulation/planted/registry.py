"""The tests are tested: faults that are planted one at a time, and the law by which the world must find each.

`find` plays worlds from one seed after another, with one fault in the code, until a law is broken; what is expected is
the first law that such a fault breaks. A fault that no world finds means that a check is too weak, and is a failure.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from simulation.ground_books import BUDGET, NEEDED, OWNED, UNKNOWN
from simulation.ground_laws import GROUND, L7, TURNS
from simulation.laws import (
    COUNTERS,
    DUE,
    L1,
    L2,
    L3,
    L4,
    L5,
    L6,
    L8,
    L9,
    L10,
    L11,
    L12,
    L13,
    L14,
    L15,
    ONE_APPEND,
    ONE_HOLDER,
    ONE_WRITER,
    ORDER,
    QUARANTINE,
    LawBroken,
)
from simulation.lease_books import LEASE
from simulation.marks import MARKED
from simulation.planted import decisions, grounds, machinery, marks, nodes
from simulation.seeded import SeedFailed, play

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS = 40
"""Worlds that are played at most until a fault is found; most are found in the first."""


class Fault(NamedTuple):
    """One wrong in the code, and the laws of which one must be named."""

    plant: Plant
    laws: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.plant.__name__

    @property
    def text(self) -> str:
        """What is wrong, in a sentence."""
        return (self.plant.__doc__ or "").strip()


class Found(NamedTuple):
    """How a fault was found."""

    worlds: int
    law: str
    lines: int
    """Lines of the story up to the breach."""


PLANTED: tuple[Fault, ...] = (
    Fault(decisions.keep_the_fence, (L1,)),
    Fault(decisions.grant_a_fence_twice, (L1,)),
    Fault(decisions.accept_any_fence, (L2, L3)),
    Fault(decisions.reopen_the_settled, (L3,)),
    Fault(decisions.settle_without_a_reason, (L4,)),
    Fault(decisions.abort_at_the_first_silence, (L5,)),
    Fault(decisions.forget_effects, (L8,)),
    Fault(decisions.salvage_twice, (L14, ONE_APPEND)),
    Fault(decisions.count_every_end, (COUNTERS,)),
    Fault(decisions.put_the_outcome_first, (ONE_APPEND,)),
    Fault(machinery.leave_it_in_the_queue, (L9,)),
    Fault(machinery.lose_rows, (L9,)),
    Fault(machinery.refuse_to_evolve, (L11,)),
    Fault(machinery.ignore_limits, (L13,)),
    Fault(machinery.forget_commands, (L15,)),
    Fault(machinery.acknowledge_on_error, (L10, L9, ONE_WRITER)),
    Fault(machinery.live_at_the_deadline, (L12,)),
    Fault(machinery.judge_by_an_old_timer, (L6,)),
    Fault(machinery.leak_a_connection, (L6,)),
    Fault(machinery.read_an_old_state, (L9,)),
    Fault(machinery.act_on_an_old_timer, (DUE,)),
    Fault(machinery.give_the_last_fact_again, (ORDER,)),
    Fault(machinery.skip_at_a_batch_end, (ORDER,)),
    Fault(machinery.charge_the_downtime, (L6,)),
    Fault(machinery.keep_a_reminder, (L12,)),
    Fault(grounds.take_unknown_for_lost, (UNKNOWN,)),
    Fault(grounds.go_by_the_name, (UNKNOWN,)),
    Fault(grounds.lose_it_twice, (L7, L9)),
    Fault(grounds.settle_before_the_fact, (L4, ONE_APPEND)),
    Fault(grounds.forget_an_assertion, (NEEDED,)),
    Fault(grounds.fail_a_turn_twice, (TURNS, L9)),
    Fault(grounds.charge_the_blind, (BUDGET,)),
    Fault(grounds.keep_an_old_checkpoint, (L9,)),
    Fault(grounds.count_a_batch_twice, (L9,)),
    Fault(grounds.let_go_before_the_end, (OWNED,)),
    Fault(grounds.miss_whoever_came_later, (UNKNOWN,)),
    Fault(grounds.take_another_body, (GROUND,)),
    Fault(decisions.act_after_the_end, (ONE_HOLDER,)),
    Fault(machinery.overlook_labels, (L13,)),
    Fault(machinery.probe_at_once, (L13, QUARANTINE)),
    Fault(nodes.start_beside_the_writer, (ONE_WRITER,)),
    Fault(nodes.let_the_old_writer_go_on, (ONE_WRITER,)),
    Fault(nodes.believe_the_workers_wall, (LEASE,)),
    Fault(nodes.trust_an_instant_of_another_node, (LEASE,)),
    Fault(nodes.go_by_the_wall_of_another_node, (LEASE,)),
    Fault(nodes.keep_the_links_of_another_life, (L6,)),
    Fault(nodes.take_a_checkpoint_for_the_tail, (L9,)),
    Fault(marks.lose_a_mark_that_was_taken, (MARKED,)),
    Fault(marks.renew_what_is_being_judged, (NEEDED,)),
    Fault(marks.judge_without_end, (MARKED,)),
)


def find(fault: Fault, seeds: int | None = None) -> Found | None:
    """How a world finds this fault, within so many seeds; None when none does.

    Raises:
        SeedFailed: something else went wrong than a law.
    """
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        for seed in range(SEEDS if seeds is None else seeds):
            try:
                play(seed)
            except SeedFailed as failed:
                if not isinstance(failed.broken, LawBroken):
                    raise
                return Found(seed + 1, failed.broken.law, str(failed).partition("\n\n")[0].count("\n") + 1)
    return None


def told(fault: Fault, found: Found | None) -> str:
    """One line: which fault, after how many worlds, by which law."""
    if found is None:
        return f"{fault.name:<32} NOT FOUND in {SEEDS} worlds: {fault.text}"
    return f"{fault.name:<32} {found.worlds:>3} worlds, {found.lines:>4} lines: {found.law}"
