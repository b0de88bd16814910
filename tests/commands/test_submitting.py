"""Submitting: one run, many in one append, and one run for one key for ever."""

from datetime import timedelta
from typing import Any

import pytest

from commands import steering, submitting
from commands.desk import NotAllowed
from domain.refusal import InvalidCommand
from domain.run_facts import RunSubmitted
from domain.submission import SubmissionMismatch
from journal.errors import OutcomeUnknown
from tests.commands.absent import GRACE_S, connected
from tests.commands.world import ADMIN, World, leader, wished


def keyed(key: str = "k", body: str = "body", **wish: Any) -> submitting.Wish:
    """A submission under an idempotency key of its body."""
    return wished(key=key, body_digest=body, **wish)


async def batch(world: World, *wishes: submitting.Wish) -> list[str]:
    """The ids of many runs submitted in one append."""
    done = await submitting.submit_many(world.desk, ADMIN, wishes)
    return [run["run_id"] for run in done.answer["runs"]]


async def test_a_key_that_names_its_leaders_submits_for_one_of_them_and_is_told_which(world: World) -> None:
    for leader_id, refusal in ((None, InvalidCommand), ("eve", NotAllowed)):
        with pytest.raises(refusal) as refused:
            await submitting.submit(world.desk, leader("ada", "bea"), wished(leader_id=leader_id))
        assert leader_id is not None or "one of the leaders of this key: 'ada', 'bea'" in str(refused.value)
    done = await submitting.submit(world.desk, leader("bea"), wished(leader_id="bea"))

    assert "bea" == (await world.show(done.answer["run_id"]))["leader_id"]


async def test_a_submission_says_its_id_its_state_and_where_it_is_recorded(each_world: World) -> None:
    world = each_world
    done = await submitting.submit(world.desk, ADMIN, wished(payload={"x": [1, 2]}, leader_id="ada"))
    document = await world.show(done.answer["run_id"])

    absent = {"connections": 0, "zero_since": world.clock().wall}
    assert ("queued", absent) == (done.answer["state"], done.answer["leader"])
    assert (2, 2) == (done.position, document["position"])
    assert ({"x": [1, 2]}, "ada", 0, 0, None) == tuple(
        document[name] for name in ("payload", "leader_id", "fence", "attempt", "owner")
    )
    assert None is (await submitting.submit(world.desk, ADMIN, wished())).answer["leader"]


@pytest.mark.origin("B27")
async def test_the_same_key_and_body_is_the_same_run_however_far_it_has_come(each_world: World) -> None:
    world = each_world
    first = await submitting.submit(world.desk, ADMIN, keyed())
    run_id = first.answer["run_id"]
    await world.worker("w1")
    await world.claimed("w1")
    await world.close(run_id, 1)
    again = await submitting.submit(world.desk, ADMIN, keyed())

    assert (first.answer, first.position) == (again.answer, again.position)
    assert 1 == world.names(run_id).count("RunSubmitted")
    assert "succeeded" == world.state(run_id)


@pytest.mark.origin("B27")
async def test_the_same_key_with_another_body_is_refused_naming_the_run(each_world: World) -> None:
    world = each_world
    run_id = (await submitting.submit(world.desk, ADMIN, keyed())).answer["run_id"]
    refused = await world.refused_or(submitting.submit(world.desk, ADMIN, keyed(body="other")))

    assert isinstance(refused, SubmissionMismatch)
    assert ("k", run_id) == (refused.key, refused.run_id)


async def test_a_key_is_of_its_queue(world: World) -> None:
    first = await batch(world, keyed(queue="a"), keyed(queue="b"), keyed(queue="a"))

    assert first[0] == first[2] != first[1]


@pytest.mark.origin("R7")
async def test_the_same_key_sent_many_times_at_once_is_one_run(each_world: World) -> None:
    world = each_world
    async with world.gate.closed():
        sent = [world.start(submitting.submit(world.desk, ADMIN, keyed())) for _ in range(5)]
        await world.settle()
    answers = [await one for one in sent]

    assert 1 == len({done.answer["run_id"] for done in answers})
    assert {1} == {done.position for done in answers}
    assert 1 == world.journal.position


async def test_a_batch_is_one_append_in_order_and_a_key_twice_in_it_is_one_run(each_world: World) -> None:
    world = each_world
    ids = await batch(world, wished(payload=0), keyed(), wished(payload=2), keyed())

    assert ids[1] == ids[3]
    assert 3 == len(set(ids)) == world.journal.position
    assert ids[:3] == [fact.run_id for fact in world.facts() if isinstance(fact, RunSubmitted)]


async def test_a_key_twice_in_a_batch_with_two_bodies_refuses_the_whole_batch(each_world: World) -> None:
    world = each_world
    refused = await world.refused_or(batch(world, wished(), keyed(), keyed(body="other")))

    assert isinstance(refused, SubmissionMismatch)
    assert 0 == world.journal.position


async def test_a_batch_in_which_one_is_invalid_submits_none(world: World) -> None:
    refused = await world.refused_or(batch(world, wished(), wished(priority=10_000_000)))

    assert isinstance(refused, InvalidCommand)
    assert ("priority", 0) == (refused.field, world.journal.position)


@pytest.mark.parametrize("count", [0, submitting.BATCH_MAX + 1])
async def test_a_batch_has_bounds(world: World, count: int) -> None:
    assert isinstance(await world.refused_or(batch(world, *[wished()] * count)), InvalidCommand)


async def test_a_batch_at_its_bound_is_submitted(world: World) -> None:
    assert submitting.BATCH_MAX == len(set(await batch(world, *[wished()] * submitting.BATCH_MAX)))


async def test_a_batch_of_known_and_new_keys_makes_the_new_ones(world: World) -> None:
    (known,) = await batch(world, keyed("a"))
    ids = await batch(world, keyed("a"), keyed("b"))

    assert known == ids[0] != ids[1]
    assert 2 == world.journal.position


@pytest.mark.parametrize("key", ["", "k" * 257])
async def test_a_key_has_bounds(world: World, key: str) -> None:
    refused = await world.refused_or(submitting.submit(world.desk, ADMIN, keyed(key)))

    assert isinstance(refused, InvalidCommand)
    assert "idempotency_key" == refused.field


async def test_a_submission_that_failed_is_made_by_sending_it_again(each_world: World) -> None:
    world = each_world
    world.gate.fails()
    assert isinstance(await world.refused_or(submitting.submit(world.desk, ADMIN, keyed())), OutcomeUnknown)
    assert {} == world.desk.live.cards
    run_id = (await submitting.submit(world.desk, ADMIN, keyed())).answer["run_id"]
    await world.worker("w1")

    assert run_id == (await world.claimed("w1"))["run_id"]


@pytest.mark.origin("A38", "K6")
async def test_a_retry_is_a_new_run_linked_to_the_old_one_which_stays_as_it_is(each_world: World) -> None:
    world = each_world
    wish: dict[str, Any] = {"payload": [1], "labels": {"a": "b"}, "priority": 3, "attempts": 5, "concurrency_key": "k"}
    old = await world.submit(**wish, run_after=world.clock().wall + timedelta(days=1))
    before = await world.show(old)
    new = (await submitting.retry(world.desk, ADMIN, old)).answer["run_id"]
    document = await world.show(new)

    assert before == await world.show(old)
    assert (old, "queued", "2026-01-01T12:00:00Z", None) == tuple(
        document[name] for name in ("retry_of", "state", "due_at", "run_after")
    )
    assert {name: before[name] for name in ("payload", "labels", "priority", "concurrency_key", "policy")} == {
        name: document[name] for name in ("payload", "labels", "priority", "concurrency_key", "policy")
    }


async def test_a_retry_of_a_reassigned_run_is_for_the_leader_it_has_now(world: World) -> None:
    run_id, fence = await world.held("w1", leader_id="ada")
    await steering.reassign_run(world.desk, ADMIN, run_id, "bob", 1)
    await world.close(run_id, fence, "failed", error="x", retryable=False)
    async with connected(world, "bob"):
        new = (await submitting.retry(world.desk, leader("bob"), run_id)).answer["run_id"]
        await world.later(GRACE_S)

        assert ("queued", "bob") == (world.state(new), (await world.show(new))["leader_id"])


async def test_a_retry_does_not_inherit_the_key_of_the_old_run(world: World) -> None:
    old = (await submitting.submit(world.desk, ADMIN, keyed())).answer["run_id"]
    first = (await submitting.retry(world.desk, ADMIN, old)).answer["run_id"]
    second = (await submitting.retry(world.desk, ADMIN, old)).answer["run_id"]

    assert 3 == len({old, first, second})
