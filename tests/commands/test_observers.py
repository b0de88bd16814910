"""Observers: who may observe what, and what becomes of a scope that nobody watches any more."""

import pytest

from commands import workspaces
from commands.desk import NotAllowed
from commands.scopes import ScopeObserved
from commands.watching import unknown_since_boot
from domain.lease import FenceLost
from tests.commands.ground import SCOPE, ground, observer, placed, report, saw, see, shown, standing
from tests.commands.world import World, worker_key

IN = {"scope": SCOPE}


async def test_an_observer_that_lost_its_run_is_refused_and_nothing_it_says_is_believed(each_world: World) -> None:
    run_id, _, _ = await standing(each_world, ttl=60, **IN)
    watch = await observer(each_world)
    await each_world.close(*watch)

    with pytest.raises(FenceLost) as refused:
        await report(each_world, watch, synced=True)
    with pytest.raises(FenceLost):
        await report(each_world, (watch[0], watch[1] + 1), synced=True)
    with pytest.raises(FenceLost):
        await report(each_world, watch, synced=True, caller=worker_key("w2"))

    assert watch[1] == refused.value.presented
    assert "running" == each_world.state(run_id)


async def test_a_bound_key_observes_the_scope_that_its_run_was_made_for_and_no_other(world: World) -> None:
    run_id, _, workspace_id = await standing(world, **IN)
    own_run, fence = await world.held("w9")
    watch = await observer(world)

    with pytest.raises(NotAllowed) as refused:
        await report(world, (own_run, fence), (workspace_id, saw("gone")), caller=worker_key("w9"))
    with pytest.raises(NotAllowed):
        await report(world, watch, scope="cluster-2", caller=worker_key("obs"))
    answer = await report(world, watch, (workspace_id, saw("present")), caller=worker_key("obs"))

    assert "observe scope 'cluster-1'" == refused.value.action
    assert (1, "running") == (answer["applied"], world.state(run_id))


async def test_an_observer_that_ends_before_its_first_word_leaves_its_scope_unknown(world: World) -> None:
    _, _, workspace_id = await standing(world, ttl=3600, **IN)
    watch = await observer(world)

    await world.close(*watch)
    await world.keep()

    assert "observer_gone" == ground(world, workspace_id).unknown_cause


async def test_an_observer_that_loses_its_lease_in_the_middle_of_a_batch_is_refused(each_world: World) -> None:
    watch = await observer(each_world)
    run_id, _, workspace_id = await standing(each_world, **IN)
    async with each_world.gate.closed():
        closing = each_world.start(each_world.close(*watch))
        await each_world.settle()
        reporting = each_world.start(report(each_world, watch, (workspace_id, saw("gone"))))
        await each_world.settle()
    await closing
    refused = await each_world.refused_or(reporting)

    assert isinstance(refused, FenceLost)
    assert "running" == each_world.state(run_id)


@pytest.mark.origin("H14")
async def test_the_end_of_an_observer_makes_what_it_watched_unknown_at_once(each_world: World) -> None:
    run_id, _, workspace_id = await standing(each_world, ttl=60, **IN)
    _, _, elsewhere = await standing(each_world, ttl=60, scope="cluster-2")
    watch = await observer(each_world)
    await report(each_world, watch, (workspace_id, saw("present")), synced=True)

    await each_world.close(*watch)
    await each_world.keep()

    assert "observer_gone" == ground(each_world, workspace_id).unknown_cause
    assert ground(each_world, elsewhere).unknown_since is None
    assert "running" == each_world.state(run_id)
    assert {} == dict(each_world.desk.evidence.grounds.observers())


async def test_a_scope_that_another_observer_took_over_stays_known(world: World) -> None:
    _, _, workspace_id = await standing(world, ttl=3600, **IN)
    first, second = await observer(world), await observer(world, "obs-2", "another-key")
    await report(world, first, (workspace_id, saw("present")), synced=True)
    await world.close(*first)
    await report(world, second, (workspace_id, saw("present")), synced=True)
    await world.keep()
    known = ground(world, workspace_id).unknown_since
    await world.close(*second)
    await world.keep()

    assert known is None
    assert ground(world, workspace_id).unknown_since is not None


async def test_what_an_observer_may_see_and_assert_is_what_it_observes(world: World) -> None:
    _, _, watched = await standing(world, **IN)
    _, _, other = await standing(world, scope="cluster-2")
    await observer(world)
    key = worker_key("obs")

    await workspaces.assert_needed(world.desk, key, watched)
    with pytest.raises(NotAllowed):
        await workspaces.assert_needed(world.desk, key, other)

    assert shown(world, watched)["last_asserted_at"] is not None


async def test_at_a_boot_whatever_was_attached_to_is_unknown_and_an_earlier_unknown_goes_on(world: World) -> None:
    _, _, seen = await standing(world, **IN)
    _, _, unseen = await standing(world, **IN)
    run_id, fence = await world.held()
    making = await placed(world, run_id, fence)
    await see(world, unseen, saw("watch_dropped"))
    since = ground(world, unseen).unknown_since
    world.go(5)

    count = await unknown_since_boot(world.desk)

    assert 2 == count
    assert ("boot", "watch_dropped", since) == (
        ground(world, seen).unknown_cause, ground(world, unseen).unknown_cause, ground(world, unseen).unknown_since,
    )  # fmt: skip
    assert ground(world, making).unknown_since is None


@pytest.mark.origin("C29")
@pytest.mark.parametrize("whole", [True, False], ids=["list", "batch"])
async def test_a_scope_is_observed_by_one_at_a_time_whatever_the_key(each_world: World, *, whole: bool) -> None:
    run_id, _, workspace_id = await standing(each_world, ttl=3600, **IN)
    first = await observer(each_world, ttl=60)
    second = await observer(each_world, "obs-2", "another-key", ttl=60)
    await report(each_world, first, (workspace_id, saw("present")), synced=True)
    each_world.go(20)

    with pytest.raises(ScopeObserved) as refused:
        await report(each_world, second, synced=whole)

    assert (SCOPE, first[0], "obs", 40.0) == tuple(
        refused.value.fields()[name] for name in ("scope", "observer_run_id", "holder", "retry_after_s")
    )
    assert "running" == each_world.state(run_id)
    await report(each_world, second, scope="cluster-2", synced=True)


async def test_a_scope_is_free_at_the_end_of_its_observers_lease_and_not_before(world: World) -> None:
    _, _, workspace_id = await standing(world, ttl=3600, **IN)
    first, second = await observer(world, ttl=60), await observer(world, "obs-2", "another-key", ttl=3600)
    await report(world, first, (workspace_id, saw("present")), synced=True)

    world.go(59.9)
    with pytest.raises(ScopeObserved):
        await report(world, second, (workspace_id, saw("present")))
    world.go(0.1)
    taken = await report(world, second, (workspace_id, saw("present")))
    with pytest.raises(ScopeObserved) as refused:
        await report(world, first, synced=True)

    assert (1, "obs-2") == (taken["applied"], refused.value.fields()["holder"])
