"""The loss of its ground meets each run, under each policy: what follows is what the table says, and nothing else.

The run is in each situation of `tests.domain.situations` and stands on one running workspace beside it.
"""

from collections import defaultdict
from typing import get_args

import msgspec
import pytest

from domain.run import Run
from domain.submission import Policy
from domain.workspace_facts import EXITS, LossReason
from tests.domain.ground_facts import ground, lose
from tests.domain.kit import Given, told
from tests.domain.loss_table import TABLE
from tests.domain.situations import SITUATIONS

pytestmark = pytest.mark.origin("C5", "C8", "C10", "C11", "R13", "K9")


def standing_on_something(given: Given, policy: str) -> Given:
    """The same run under this policy, with a running workspace."""
    run = given.standing.run
    assert isinstance(run, Run)
    wish = msgspec.structs.replace(run.submission, policy=msgspec.structs.replace(run.policy, on_workspace_lost=policy))
    standing = msgspec.structs.replace(given.standing, run=msgspec.structs.replace(run, submission=wish))
    return Given(told(standing, ground()), given.remains)


@pytest.mark.parametrize("case", TABLE)
def test_a_loss_does_in_every_state_what_the_table_says(case: str) -> None:
    reason, policy = case.split()
    found: dict[str, list[str]] = defaultdict(list)
    for name, (given, at) in SITUATIONS.items():
        if name == "absent":
            continue
        followed = standing_on_something(given, policy).when(lose(reason), at)  # type: ignore[arg-type]
        kinds = " ".join(type(fact).__name__ for fact in followed.facts)
        found[f"{followed.after.standing.state}: {kinds}"].append(name)

    assert {key: sorted(names.split(", ")) for key, names in TABLE[case].items()} == {
        key: sorted(names) for key, names in found.items()
    }


def test_the_table_knows_every_policy_and_both_kinds_of_loss() -> None:
    policies = get_args(msgspec.structs.fields(Policy)[-1].type)
    reasons = {case.split()[0] for case in TABLE}

    assert {f"{reason} {policy}" for reason in reasons for policy in policies} == set(TABLE)
    assert {"Deleted", "ProcessExited"} == reasons
    assert {"ProcessExited"} == reasons & EXITS


@pytest.mark.parametrize("reason", get_args(LossReason))
def test_every_reason_is_told_as_it_was_seen(reason: LossReason) -> None:
    given, at = SITUATIONS["running"]
    followed = standing_on_something(given, "settle_lost").when(lose(reason, exit_code=3), at)

    loss = followed.after.ground().lost
    assert loss is not None
    assert (reason, reason in EXITS, reason in EXITS) == (loss.reason, loss.pending, loss.exit is not None)
