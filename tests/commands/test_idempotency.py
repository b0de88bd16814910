"""A repeated command: one effect, one answer, whatever it is, however often and whenever it is sent again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from commands import claims, ending, queues, steering, submitting, workers
from commands.desk import Caller
from domain.handing import Park
from domain.lease import FenceLost
from journal.commit import Done
from journal.errors import IdempotencyMismatch, OutcomeUnknown
from tests.commands.test_claiming_by_id import park
from tests.commands.world import ADMIN, World, closing, command, plain, text, wished

Given = tuple[str, int]
Act = Callable[[World, Caller, Given], Awaitable[Done[Any]]]

COMMANDS: dict[str, Act] = {
    "submit": lambda w, c, g: submitting.submit(w.desk, c, wished(payload=1)),
    "submit many": lambda w, c, g: submitting.submit_many(w.desk, c, [wished(), wished()]),
    "retry": lambda w, c, g: submitting.retry(w.desk, c, g[0]),
    "claim": lambda w, c, g: claims.claim(w.desk, c, claims.Ask(worker_id="w1")),
    "reserve": lambda w, c, g: claims.reserve(w.desk, c, claims.Ask(worker_id="w1")),
    "claim by id": lambda w, c, g: claims.claim_run(w.desk, c, next(iter(w.desk.live.cards)), "w1"),
    "park": lambda w, c, g: ending.park(w.desk, c, *g, Park(kind="waiting_input", question=text("?"))),
    "hand back": lambda w, c, g: ending.hand_back(w.desk, c, *g),
    "close": lambda w, c, g: ending.close(w.desk, c, closing(*g, result={"a": 1})),
    "close many": lambda w, c, g: ending.close_many(w.desk, c, [closing(*g)]),
    "cancel": lambda w, c, g: steering.cancel(w.desk, c, g[0], keep_workspaces=True),
    "pause": lambda w, c, g: steering.pause(w.desk, c, g[0]),
    "register": lambda w, c, g: workers.register_worker(w.desk, c, "w9", workers.Ability({"a": "b"}, 3)),
    "drain": lambda w, c, g: workers.drain_worker(w.desk, c, "w1"),
    "configure": lambda w, c, g: queues.configure_queue(w.desk, c, "default", 9, 9),
}


async def ready(world: World) -> Given:
    """A queued run for claims, and a held one for everything else."""
    await world.submit()
    await world.worker("w1", slots=9)
    return await world.held("w1", payload={"p": 1})


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.origin("B27", "D61")
async def test_a_command_that_is_repeated_has_one_effect_and_one_answer(each_world: World, name: str) -> None:
    world = each_world
    given = await ready(world)
    first = await COMMANDS[name](world, command("c1"), given)
    position = world.journal.position
    world.go(5)
    again = await COMMANDS[name](world, command("c1"), given)

    assert (False, True) == (first.repeated, again.repeated)
    assert plain(first.answer) == plain(again.answer)
    assert first.position == again.position
    assert position == world.journal.position


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.origin("D61")
async def test_a_command_that_is_sent_many_times_at_once_has_one_effect(each_world: World, name: str) -> None:
    world = each_world
    given = await ready(world)
    async with world.gate.closed():
        sent = [world.start(_done(COMMANDS[name](world, command("c1"), given))) for _ in range(4)]
        await world.settle()
    answers = await asyncio.gather(*sent)

    assert 1 == len({done.position for done in answers})
    assert 1 == sum(not done.repeated for done in answers)
    assert all(plain(answers[0].answer) == plain(done.answer) for done in answers)


async def _done(doing: Awaitable[Done[Any]]) -> Done[Any]:
    return await doing


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.origin("D38")
async def test_a_command_whose_outcome_was_unknown_is_found_out_by_sending_it_again(
    each_world: World, name: str
) -> None:
    world = each_world
    given = await ready(world)
    world.gate.fails()
    assert isinstance(await world.refused_or(COMMANDS[name](world, command("c1"), given)), OutcomeUnknown)
    done = await COMMANDS[name](world, command("c1"), given)
    again = await COMMANDS[name](world, command("c1"), given)

    assert (False, True) == (done.repeated, again.repeated)
    assert plain(done.answer) == plain(again.answer)


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_command_that_landed_in_spite_of_an_error_is_answered_as_done(each_world: World, name: str) -> None:
    world = each_world
    given = await ready(world)
    world.gate.fails(after_all=True)
    done = await COMMANDS[name](world, command("c1"), given)
    position = world.journal.position
    again = await COMMANDS[name](world, command("c1"), given)

    assert plain(done.answer) == plain(again.answer)
    assert (position, again.position) == (world.journal.position, done.position)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.origin("B27")
async def test_the_same_key_with_another_body_is_refused(each_world: World, name: str) -> None:
    world = each_world
    given = await ready(world)
    await COMMANDS[name](world, command("c1"), given)
    position = world.journal.position
    refused = await world.refused_or(COMMANDS[name](world, command("c1", digest="another"), given))

    assert isinstance(refused, IdempotencyMismatch)
    assert position == world.journal.position


async def test_a_refusal_is_not_remembered(world: World) -> None:
    run_id, fence = await world.held("w1")
    refused = await world.refused_or(ending.close(world.desk, command("c1"), closing(run_id, fence + 1)))
    assert isinstance(refused, FenceLost)
    done = await ending.close(world.desk, command("c1"), closing(run_id, fence))

    assert "succeeded" == done.answer["state"]


async def test_a_command_that_found_nothing_to_do_is_decided_anew(world: World) -> None:
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence, keep=True)
    same = Park(kind="waiting_input", keep_lease=True)
    done = await ending.park(world.desk, command("c1"), run_id, fence, same)
    assert (None, False) == (done.position, done.repeated)
    again = await ending.park(world.desk, command("c1"), run_id, fence, same)

    assert (None, False) == (again.position, again.repeated)


async def test_an_answer_of_a_run_is_remembered_as_it_was_then(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence)
    first = await steering.answer(world.desk, command("c1"), run_id, text("yes"))
    await world.claimed("w1")
    await world.close(run_id, fence + 1)
    again = await steering.answer(world.desk, command("c1"), run_id, text("yes"))

    assert "queued" == again.answer["state"] == plain(first.answer)["state"]
    assert "succeeded" == world.state(run_id)


async def test_a_bind_and_its_cancel_are_repeated_without_a_reservation(each_world: World) -> None:
    world = each_world
    await world.submit()
    await world.submit()
    await world.worker("w1", slots=9)
    bound, cancelled = (claim["token"] for claim in await world.claim("w1", most=2, reserve=True))
    for act, token in ((claims.bind_token, bound), (claims.cancel_token, cancelled)):
        first = await act(world.desk, command(f"c {token}"), token)
        again = await act(world.desk, command(f"c {token}"), token)

        assert again.repeated
        assert plain(first.answer) == plain(again.answer)


@pytest.mark.origin("B27")
async def test_the_facts_of_a_command_name_it_as_their_cause(world: World) -> None:
    done = await submitting.submit(world.desk, command("c1"), wished())

    assert ["c1"] == [recorded.meta.causation_id for recorded in done.facts]
    assert ["c1"] == [recorded.meta.command_id for recorded in done.facts]


async def test_an_answer_that_nobody_waited_for_is_found_by_its_key(each_world: World) -> None:
    world = each_world
    await world.submit()
    await world.worker("w1")
    ask = claims.Ask(worker_id="w1")
    async with world.gate.closed() as gate:
        gone = world.start(claims.claim(world.desk, command("c1"), ask))
        await gate.reached()
        gone.cancel()
        again = world.start(claims.claim(world.desk, command("c1"), ask))
        await world.settle()
        assert not again.done()
    done = await again

    assert done.repeated
    assert 1 == len(done.answer["claims"])
    assert 1 == world.desk.live.limits.total()
    assert ADMIN.command_id is None
