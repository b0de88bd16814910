"""What an explanation says of the ground: one sentence for each workspace, the clocks that run on it, and its facts."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from commands import explaining, turns, workers, workspaces
from commands.workspaces import Step
from projections.why_grounds import TOLD_MAX
from tests.commands.ground import SCOPE, attached, placed, saw, see
from tests.commands.world import ADMIN, World, plain

Making = Callable[[World, str], Awaitable[Any]]


def why(world: World, run_id: str) -> dict[str, Any]:
    """The explanation as anybody is shown it."""
    return dict(plain(explaining.explain(world.desk, ADMIN, run_id)))


async def nothing(world: World, workspace_id: str) -> None:
    """It stays as it was placed."""


async def provisioned(world: World, workspace_id: str) -> None:
    """Its body is being made."""
    await workspaces.move(world.desk, ADMIN, workspace_id, Step(phase="provisioning"))


async def there(world: World, workspace_id: str) -> None:
    """Its body exists."""
    await workspaces.move(world.desk, ADMIN, workspace_id, Step(phase="attaching", identity="uid"))


async def unseen(world: World, workspace_id: str) -> None:
    """Its body exists, and nobody sees it."""
    await there(world, workspace_id)
    await see(world, workspace_id, saw("watch_dropped"))


async def lost(world: World, workspace_id: str) -> None:
    """It was attached to, and is gone."""
    await attached(world, workspace_id)
    await see(world, workspace_id, saw("gone", reason="NodeLost"))


async def released(world: World, workspace_id: str) -> None:
    """It was attached to, and is to be destroyed."""
    await attached(world, workspace_id)
    await workspaces.release_workspace(world.desk, ADMIN, workspace_id)


async def destroyed(world: World, workspace_id: str) -> None:
    """It was destroyed."""
    await released(world, workspace_id)
    await see(world, workspace_id, saw("gone"))


async def kept_waiting(world: World, workspace_id: str) -> None:
    """There is no room for it."""
    await workspaces.move(world.desk, ADMIN, workspace_id, Step(phase="waiting", on="node"))


CASES: dict[str, tuple[Making, str]] = {
    "placed": (nothing, "waits, without a limit, for kubernetes to make its body."),
    "waiting": (kept_waiting, "waits, without a limit, for a node with room for it."),
    "in the making": (provisioned, "is being made; unless it is attached by 2026-01-01T12:02:00.000Z (in 2 min), the"),
    "there": (there, "is there and has yet to answer; unless it is attached by"),
    "unseen in the making": (unseen, "and its clock stands still while nobody can see it."),
    "attached to": (attached, "is there and stays; unless somebody asserts it by 2026-01-01T12:30:00.000Z (in 30 min)"),
    "lost": (lost, "is lost (NodeLost) and is given no second body; what is left of it can be looked into until"),
    "released": (released, "is to be destroyed; whoever provides it is told until it has been."),
    "destroyed": (destroyed, "was destroyed and stays so."),
}


@pytest.mark.parametrize("case", CASES)
async def test_each_workspace_has_a_sentence_that_says_what_happens_to_it_next(world: World, case: str) -> None:
    make, sentence = CASES[case]
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence, provider="kubernetes", scope=SCOPE)
    await make(world, workspace_id)

    (shown,) = why(world, run_id)["workspaces"]

    assert sentence in shown["next"]
    assert workspace_id in shown["next"]


@pytest.mark.parametrize(
    ("policy", "follows"),
    [
        ("settle_lost", "the run is settled as lost"),
        ("retry_fresh", "the run is queued again for a fresh workspace, with 1 of 3 attempts failed"),
        ("park", "the run waits to be taken over"),
    ],
)
async def test_a_pending_loss_says_whom_it_waits_for_and_what_the_policy_does_else(
    world: World, policy: str, follows: str
) -> None:
    run_id, fence = await world.held(on_workspace_lost=policy)
    workspace_id = await placed(world, run_id, fence)
    await attached(world, workspace_id)
    await see(world, workspace_id, saw("ended", reason="ProcessExited", exit_code=1))

    answer = why(world, run_id)

    lost = f"workspace {workspace_id} was lost (ProcessExited, exit 1)"
    assert f"{follows}, because {lost}." in answer["next"]
    assert f"{lost[0].upper()}{lost[1:]}, and its holder is asked first: its close decides." in answer["next"]
    assert 1 == answer["next"].count("the run ")
    assert [] == [clock for clock in answer["clocks"] if clock["name"] == "idle_reap"]


async def test_the_clocks_of_ground_and_turns_are_shown_with_the_others(world: World) -> None:
    run_id, fence = await world.held()
    await placed(world, run_id, fence)
    await turns.admit(world.desk, ADMIN, run_id, fence, None)

    clocks = {clock["name"]: (clock["since"], clock["due_at"]) for clock in why(world, run_id)["clocks"]}

    assert ("2026-01-01T12:00:00Z", "2026-01-01T12:02:00Z") == clocks["provisioning"]
    assert ("2026-01-01T12:00:00Z", "2026-01-01T12:30:00Z") == clocks["idle_reap"]
    assert ("2026-01-01T12:00:00Z", "2026-01-01T12:01:30Z") == clocks["admission"]


@pytest.mark.parametrize(("ttl", "first"), [(60, "worker 'w1'"), (600, "the body of")])
async def test_a_body_that_is_due_before_the_lease_is_told_before_it(world: World, ttl: int, first: str) -> None:
    run_id, fence = await world.held(ttl=ttl)
    await provisioned(world, await placed(world, run_id, fence, provider="kubernetes", scope=SCOPE))

    assert why(world, run_id)["next"].startswith(first)


async def test_at_most_a_few_workspaces_are_told_of_in_the_runs_own_sentence(world: World) -> None:
    run_id, fence = await world.held()
    made = [await placed(world, run_id, fence) for _ in range(TOLD_MAX)]
    at_the_bound = why(world, run_id)["next"]
    made.append(await placed(world, run_id, fence))
    beyond = why(world, run_id)

    assert TOLD_MAX == sum(each in at_the_bound for each in made)
    assert TOLD_MAX == sum(each in beyond["next"] for each in made)
    assert made == [each["workspace_id"] for each in beyond["workspaces"]]


async def test_each_clock_of_ground_and_turns_names_what_it_is_about(world: World) -> None:
    run_id, fence = await world.held()
    made = [await placed(world, run_id, fence) for _ in range(2)]
    for _ in range(2):
        await turns.admit(world.desk, ADMIN, run_id, fence, None)

    clocks = why(world, run_id)["clocks"]

    assert sorted(made * 2) == sorted(clock["workspace_id"] for clock in clocks if clock["workspace_id"] is not None)
    assert [1, 2] == sorted(clock["turn"] for clock in clocks if clock["turn"] is not None)


@pytest.mark.parametrize(("reason", "left"), [("DirectoryDeleted", 0), ("Evicted", 1)])
async def test_no_clock_runs_on_a_body_that_is_gone_and_one_on_a_body_that_is_left(
    world: World, reason: str, left: int
) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence)
    await attached(world, workspace_id)
    await see(world, workspace_id, saw("gone", reason=reason))

    answer = why(world, run_id)
    (shown,) = answer["workspaces"]

    assert left == sum(clock["workspace_id"] == workspace_id for clock in answer["clocks"])
    assert bool(left) == ("can be looked into" in shown["next"])


async def test_open_turns_are_shown_with_their_state_since_when_and_their_mark(world: World) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence)
    await attached(world, workspace_id, incarnation=4)
    for _ in range(2):
        await turns.admit(world.desk, ADMIN, run_id, fence, workspace_id)
    world.go(7)
    await turns.deliver(world.desk, ADMIN, turns.Named(run_id=run_id, fence=fence, turn=1), None)

    first, second = why(world, run_id)["turns"]

    assert (1, "waiting", "2026-01-01T12:00:07Z", workspace_id, 4) == tuple(first.values())
    assert (2, "admitted", "2026-01-01T12:00:00Z") == (second["turn"], second["state"], second["since"])


async def test_a_holder_that_broke_off_on_the_last_attempt_is_told_of_with_the_age_of_what_it_saw(world: World) -> None:
    run_id, fence = await world.held(max_attempts=1)
    workspace_id = await placed(world, run_id, fence)
    await attached(world, workspace_id)
    world.go(3)
    await workers.detached(world.desk, ADMIN, "w1")
    world.go(10)

    answer = why(world, run_id)
    (shown,) = answer["workspaces"]
    await world.beats("w1", run_id, fence)
    after = why(world, run_id)

    assert "broke at 2026-01-01T12:00:03.000Z, and its whole ttl is waited" in answer["next"]
    assert ("2026-01-01T12:00:00Z", True) == (shown["seen_at"], "whose connection broke: it may be" in shown["next"])
    assert (True, "2026-01-01T12:00:03Z") == (answer["evidence"]["detached"], answer["evidence"]["detached_at"])
    assert (False, None) == (after["evidence"]["detached"], after["evidence"]["detached_at"])
    assert "goes on" in after["next"]
