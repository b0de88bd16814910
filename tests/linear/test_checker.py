"""The checker itself: it explains what a right service says, and accuses every wrong one."""

import random
from dataclasses import replace

import pytest

from tests.linear.checker import MOST_OPERATIONS, Operation, Undecided, linearizable
from tests.linear.fences import disorder
from tests.linear.judging import story
from tests.linear.models import RunModel
from tests.linear.pretending import CLIENTS, FAULTS, Pretended, history

RIGHT_HISTORIES = 60
WRONG_HISTORIES = 20
UNSHOWN = 1
"""Histories in which a fault may by chance never show in an answer."""


def made(
    seed: int, fault: str | None = None, *, operations: int = 120, unanswered: float = 0.03, **how: bool
) -> list[Operation]:
    chance = random.Random(seed)
    return history(Pretended(chance, fault, **how), chance, operations, unanswered=unanswered)


@pytest.mark.parametrize("may_expire", [False, True])
def test_every_history_of_a_right_service_is_explained(may_expire: bool) -> None:
    model = RunModel(may_expire=may_expire)
    unexplained = [
        seed for seed in range(RIGHT_HISTORIES) if not linearizable(made(seed, may_expire=may_expire), model)
    ]

    assert [] == unexplained


def test_a_long_history_of_a_right_service_is_decided() -> None:
    assert linearizable(made(1, operations=MOST_OPERATIONS - len(CLIENTS)), RunModel(may_expire=False))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_service_that_is_wrong_in_one_way_is_accused(fault: str) -> None:
    model = RunModel(may_expire=False)
    explained = [
        seed
        for seed in range(WRONG_HISTORIES)
        if linearizable(made(seed, fault, operations=400, unanswered=0.0), model)
    ]

    assert len(explained) <= UNSHOWN, f"{explained} were explained"


def test_one_answer_that_is_altered_is_noticed() -> None:
    model, noticed, altered = RunModel(may_expire=False), 0, 0
    for seed in range(40):
        chance = random.Random(seed)
        told = made(seed, unanswered=0.0, operations=60)
        shown = [
            number
            for number, one in enumerate(told)
            if one.asked[0] in ("get", "claim") and one.told and one.told[0] == "ok"
        ]
        place = chance.choice(shown)
        answer = told[place].told
        told[place] = replace(told[place], told=(answer[0], answer[1] + 1, *answer[2:]))
        altered += 1
        noticed += not linearizable(told, model)

    assert altered == noticed


def test_an_answer_may_not_be_explained_by_what_was_asked_after_it() -> None:
    later = Operation("ada", ("claim",), 2, 3, ("ok", 1, None, None))
    reading = Operation("bob", ("get",), 0, 1, ("ok", 1, "ada", None))
    at_once = replace(reading, called=2, answered=4)

    assert not linearizable([reading, later], RunModel(may_expire=True))
    assert linearizable([at_once, later], RunModel(may_expire=True))


def test_what_nobody_answered_may_have_happened_late_or_never() -> None:
    claim = Operation("ada", ("claim",), 0)
    nobody = Operation("bob", ("get",), 1, 2, ("ok", 0, None, None))
    somebody = Operation("bob", ("get",), 3, 4, ("ok", 1, "ada", None))

    assert linearizable([claim, nobody], RunModel(may_expire=False))
    assert linearizable([claim, nobody, somebody], RunModel(may_expire=False))
    assert not linearizable([nobody, somebody], RunModel(may_expire=True))


def test_the_story_of_an_unexplained_history_ends_with_the_answer_that_cannot_be() -> None:
    told = made(5, unanswered=0.0)
    wrong = next(n for n, one in enumerate(told) if one.told and one.told[0] == "ok" and one.asked == ("get",))
    told[wrong] = replace(told[wrong], told=("ok", 77, None, None))

    lines = story(told, RunModel(may_expire=False)).splitlines()

    assert [f"{told[wrong].called}"] == [line.split()[0] for line in lines if "('ok', 77, None, None)" in line]
    assert len(lines) < len(told)


def test_a_search_that_is_given_up_is_no_verdict() -> None:
    with pytest.raises(Undecided):
        linearizable(made(3, operations=100), RunModel(may_expire=False), most_steps=20)


def test_more_operations_than_are_decided_are_refused() -> None:
    reading = [Operation("ada", ("get",), 2 * n, 2 * n + 1, ("ok", 0, None, None)) for n in range(MOST_OPERATIONS + 1)]

    assert linearizable(reading[:-1], RunModel(may_expire=False))
    with pytest.raises(AssertionError, match="501 operations"):
        linearizable(reading, RunModel(may_expire=False))


def test_the_fences_of_a_long_right_history_are_in_order() -> None:
    assert [] == disorder(made(7, operations=20_000))


@pytest.mark.parametrize("fault", ["a fence is granted twice", "an old fence is accepted"])
def test_the_fences_of_a_long_wrong_history_are_not(fault: str) -> None:
    assert [] != disorder(made(8, fault, operations=2_000))


def granted(client: str, fence: int, called: int, answered: int) -> Operation:
    return Operation(client, ("claim",), called, answered, ("ok", fence, None, None))


ADA, BOB = CLIENTS[:2]
WRITE = Operation(ADA, ("partial", 1, "x"), 6, 7, ("ok",))


@pytest.mark.parametrize(
    ("told", "what"),
    [
        ([granted(ADA, 1, 0, 1), granted(BOB, 1, 2, 3)], "granted to ada and to bob"),
        ([granted(ADA, 2, 0, 1), granted(BOB, 1, 2, 3)], "asked for after a higher one"),
        ([granted(ADA, 1, 0, 1), granted(BOB, 2, 2, 3), WRITE], "after a higher fence had been granted"),
        ([granted(BOB, 1, 0, 1), WRITE], "under a fence of bob"),
        ([granted(ADA, 1, 8, 9), WRITE], "before its fence was asked for"),
    ],
)
def test_each_disorder_of_fences_is_named(told: list[Operation], what: str) -> None:
    assert [True] == [what in found for found in disorder(told)]


def test_a_write_during_the_grant_of_a_higher_fence_accuses_nobody() -> None:
    assert [] == disorder([granted(ADA, 1, 0, 1), granted(BOB, 2, 2, 7), WRITE])
