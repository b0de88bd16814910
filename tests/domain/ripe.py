"""Runs that are worth asking about: with an effect under way, a workspace, a partial and some output.

A decision that forgets one of them is seen. Each maker gives a section of a page of ``tests.domain.written``.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from domain.run import Run
from domain.standing import Remains
from domain.workspace_facts import LossReason
from tests.domain.facts import (
    cancel_asked,
    closed,
    granted,
    intended,
    parked,
    pause_asked,
    submitted,
)
from tests.domain.ground_facts import (
    ground,
    lost,
    placed,
)
from tests.domain.ground_situations import GROUNDS
from tests.domain.kit import Decide, Given, Told, flat, given, text, told
from tests.domain.situations import SITUATIONS
from tests.domain.written import WORK, Cases, section

REMAINS = Remains(
    work=WORK,
    partial=text({"half": 1}),
    partial_fence=1,
)
LOSSES: tuple[LossReason, ...] = ("Deleted", "ProcessExited")


def ripe(name: str, **policy: Any) -> Given:
    """The situation under this policy: with an effect where somebody acts, a workspace, something in the registers."""
    standing = SITUATIONS[name].given.standing
    if not isinstance(standing.run, Run):
        return Given(standing, REMAINS)
    wish = msgspec.structs.replace(
        standing.run.submission, policy=msgspec.structs.replace(standing.run.policy, **policy)
    )
    run = msgspec.structs.replace(standing.run, submission=wish)
    begun = [intended()] if run.acting else []
    return Given(told(msgspec.structs.replace(standing, run=run), [*begun, *ground()]), REMAINS)


def situations(**policy: Any) -> Cases:
    """Every situation of a run, ripe, under this policy."""
    return {name: (ripe(name, **policy), SITUATIONS[name].at) for name in SITUATIONS}


def on_a_run(decide: Decide, **policy: Any) -> Callable[[], str]:
    """What a command does in every situation of a run."""
    return lambda: section(decide, situations(**policy))


def on_a_run_without_ground(decide: Decide) -> Callable[[], str]:
    """What a command does in every situation as it is: no workspace, no effect, nothing in the registers."""
    return lambda: section(decide, {name: (given, at) for name, (given, at) in SITUATIONS.items()})


def on_ground(decide: Decide, *more: Told) -> Callable[[], str]:
    """What a command does to every workspace, under a run with some facts more and something in the registers."""

    def make() -> str:
        cases = {name: (Given(given_more(each, *more).standing, REMAINS), 10.0) for name, each in GROUNDS.items()}
        return section(decide, cases)

    return make


def on_a_pending_loss(decide: Decide, policy: str, **more: Any) -> Callable[[], str]:
    """What a command does when the holder was asked about an exit, before and at its deadline."""

    def make() -> str:
        wish = submitted(on_workspace_lost=policy, **more)
        asked = given(
            wish,
            granted(),
            intended(),
            ground(),
            lost("ProcessExited", pending=True),
        ).having(REMAINS)
        kept = given_more(asked, parked(kept=True))
        cases = {
            "running": (asked, 10.0),
            "running past": (asked, 60.0),
            "cancelling": (given_more(asked, cancel_asked()), 10.0),
            "asked to pause": (given_more(asked, pause_asked()), 10.0),
            "kept": (kept, 10.0),
            "kept past": (kept, 60.0),
        }
        return section(decide, cases)

    return make


def on_later_attempts(decide: Decide, **policy: Any) -> Callable[[], str]:
    """What a command does to the second attempt of two and of three after a failure, before and at its deadline."""

    def make() -> str:
        cases: dict[str, tuple[Given, float]] = {}
        for most in (2, 3):
            wish = submitted(max_attempts=most, **policy)
            failed = (wish, granted(), closed("failed", "queued", failed=1), granted("bob", 2, 30), intended(fence=2))
            run = given(*failed, placed(fence=2)).having(REMAINS)
            cases |= {f"of {most}": (run, 40.0), f"of {most} past": (run, 90.0)}
        return section(decide, cases)

    return make


def on_unborn_ground(decide: Decide) -> Callable[[], str]:
    """What a command does in every situation of a run with a workspace that has no body yet."""

    def make() -> str:
        return section(
            decide,
            {
                name: (given_more(Given(situation.given.standing), placed()), situation.at)
                for name, situation in SITUATIONS.items()
                if isinstance(situation.given.standing.run, Run)
            },
        )

    return make


def given_more(before: Given, *facts: Told) -> Given:
    """The same after these facts."""
    return Given(told(before.standing, flat(facts)), before.remains)
