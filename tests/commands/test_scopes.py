"""Whole scopes under observation: batches, full lists, parts of them, and the end of whoever observes."""

import asyncio

import pytest

from commands import workspaces
from commands.scopes import OBSERVATIONS_MAX, Part, ScopeObserved, SyncBroken
from domain.refusal import InvalidCommand
from domain.values import EPOCH, Moment
from evidence.grounds import LISTS_MAX, PARTS_MAX, SCOPES_PER_OBSERVER_MAX, GroundMarks, Listed
from tests.commands.ground import SCOPE, attached, ground, observer, placed, report, saw, see, standing
from tests.commands.world import ADMIN, World, command

IN = {"scope": SCOPE}


def part(index: int, *, last: bool = False, sync_id: str = "s1") -> Part:
    """One part of a list."""
    return Part(sync_id=sync_id, index=index, last=last)


@pytest.mark.origin("C9", "R14")
async def test_a_dropped_watch_is_unknown_and_a_full_list_ends_it(each_world: World) -> None:
    run_id, _, workspace_id = await standing(each_world, **IN)
    watch = await observer(each_world)

    await report(each_world, watch, (workspace_id, saw("watch_dropped")))
    each_world.go(30)
    unknown = await each_world.show(run_id)
    seen = await report(each_world, watch, (workspace_id, saw("present")))
    still = ground(each_world, workspace_id).unknown_since
    await report(each_world, watch, (workspace_id, saw("present")), synced=True)

    assert ("running", True) == (unknown["state"], unknown["evidence"]["unknown_since"] is not None)
    assert ({"applied": 1, "ignored": 0, "refused": [], "absent": 0}, True) == (seen, still is not None)
    assert (await each_world.show(run_id))["evidence"]["unknown_since"] is None
    assert "WorkspaceLost" not in each_world.names(run_id)


@pytest.mark.origin("C29", "C36")
async def test_who_a_full_list_does_not_name_is_gone_and_who_it_names_stays(each_world: World) -> None:
    watch = await observer(each_world)
    gone_run, _, gone = await standing(each_world, **IN)
    stays_run, _, stays = await standing(each_world, **IN)
    other_run, _, _ = await standing(each_world, scope="cluster-2")

    answer = await report(each_world, watch, (stays, saw("present")), synced=True)

    assert {"applied": 1, "ignored": 0, "refused": [], "absent": 1} == answer
    assert ["lost", "running", "running"] == [each_world.state(each) for each in (gone_run, stays_run, other_run)]
    assert "Deleted" == ground(each_world, gone).reason


async def test_whoever_was_attached_to_after_the_list_was_asked_for_is_not_absent(world: World) -> None:
    watch = await observer(world)
    world.go(10)
    run_id, _, _ = await standing(world, **IN)
    world.go(1)

    late = await report(world, watch, synced=True, listed_s_ago=2.0)
    alive = world.state(run_id)
    now = await report(world, watch, synced=True, listed_s_ago=0.5)

    assert (0, "running", 1, "lost") == (late["absent"], alive, now["absent"], world.state(run_id))


async def test_a_list_that_comes_late_or_twice_misses_nobody_who_was_attached_to_after_it(each_world: World) -> None:
    watch = await observer(each_world)
    gone_run, _, _ = await standing(each_world, **IN)
    known = each_world.journal.position
    first = await report(each_world, watch, synced=True, as_of=known - 1)
    run_id, _, _ = await standing(each_world, **IN)
    each_world.go(30)

    late = await report(each_world, watch, synced=True, as_of=known)
    in_parts = await report(each_world, watch, synced=True, as_of=known, part=Part(sync_id="s", index=0, last=True))

    assert [0, 1, 0] == [answer["absent"] for answer in (first, late, in_parts)]
    assert ("lost", "running") == (each_world.state(gone_run), each_world.state(run_id))


async def test_bodies_that_are_not_attached_to_yet_are_never_absent(world: World) -> None:
    watch = await observer(world)
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence, provider="kubernetes", scope=SCOPE)

    answer = await report(world, watch, synced=True)

    assert (0, "placing") == (answer["absent"], ground(world, workspace_id).phase)


async def test_an_absent_body_that_was_to_be_destroyed_is_destroyed(world: World) -> None:
    watch = await observer(world)
    _, _, workspace_id = await standing(world, **IN)
    await workspaces.release_workspace(world.desk, ADMIN, workspace_id)

    await report(world, watch, synced=True)

    assert "destroyed" == ground(world, workspace_id).phase


async def test_one_observation_that_is_refused_costs_the_others_nothing(each_world: World) -> None:
    watch = await observer(each_world)
    _, _, odd = await standing(each_world, **IN)
    _, _, behind = await standing(each_world, **IN)
    lost_run, _, lost = await standing(each_world, **IN)
    _, _, foreign = await standing(each_world, scope="cluster-2")
    await see(each_world, behind, saw("present", incarnation=5))

    answer = await report(
        each_world, watch,
        (odd, saw("present", identity="body-9")), (behind, saw("harness_restarted", incarnation=4)),
        (lost, saw("gone", reason="NodeLost")), (foreign, saw("gone")), ("nothing", saw("gone")),
    )  # fmt: skip
    repeated = await report(each_world, watch, (lost, saw("gone", reason="NodeLost")), (lost, saw("present")))

    assert (1, 2) == (answer["applied"], answer["ignored"])
    assert {odd: "identity_changed", behind: "incarnation_backwards"} == {
        each["workspace_id"]: each["code"] for each in answer["refused"]
    }
    assert "lost" == each_world.state(lost_run)
    assert "running" == ground(each_world, foreign).phase
    assert {"applied": 0, "ignored": 2, "refused": [], "absent": 0} == repeated
    assert {"applied": 1, "ignored_foreign": 1, "ignored_unknown": 1, "ignored_over": 2,
            "refused_identity_changed": 1, "refused_incarnation_backwards": 1} == dict(
        each_world.desk.evidence.grounds.counts
    )  # fmt: skip


async def test_who_was_seen_but_refused_is_neither_absent_nor_seen(world: World) -> None:
    watch = await observer(world)
    run_id, _, workspace_id = await standing(world, **IN)
    await report(world, watch, (workspace_id, saw("watch_dropped")))

    await report(world, watch, (workspace_id, saw("present", identity="body-9")), synced=True)

    assert ("running", True) == (world.state(run_id), ground(world, workspace_id).unknown_since is not None)


async def test_a_body_that_has_yet_to_come_is_not_unseen_once_everything_was_listed(each_world: World) -> None:
    watch = await observer(each_world, ttl=3600)
    run_id, fence = await each_world.held(ttl=3600)
    making = await placed(each_world, run_id, fence, scope=SCOPE, provider="kubernetes")
    await workspaces.move(each_world.desk, ADMIN, making, workspaces.Step(phase="provisioning"))
    await see(each_world, making, saw("watch_dropped"))
    await each_world.later(500)
    unseen = ground(each_world, making)

    await report(each_world, watch, synced=True)
    await each_world.later(119)
    expected = ground(each_world, making)
    await each_world.later(1)

    assert (True, "provisioning") == (unseen.unknown_since is not None, unseen.phase)
    assert (None, "provisioning") == (expected.unknown_since, expected.phase)
    assert "provision_failed" == ground(each_world, making).phase


async def test_whoever_attaches_to_a_body_has_seen_it(world: World) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence, scope=SCOPE, provider="kubernetes")
    await see(world, workspace_id, saw("present", identity="body-1"), saw("watch_dropped"))
    before = ground(world, workspace_id).unknown_since

    await attached(world, workspace_id)

    assert (True, None) == (before is not None, ground(world, workspace_id).unknown_since)
    assert [] == list(world.desk.live.grounds.unknown())


async def test_a_list_in_parts_counts_once_its_last_part_came(each_world: World) -> None:
    watch = await observer(each_world)
    _, _, first = await standing(each_world, **IN)
    _, _, second = await standing(each_world, **IN)
    absent_run, _, _ = await standing(each_world, **IN)
    for each in (first, second):
        await see(each_world, each, saw("watch_dropped"))

    await report(each_world, watch, (first, saw("present")), synced=True, part=part(0))
    half = [ground(each_world, each).unknown_since is None for each in (first, second)]
    running = each_world.state(absent_run)
    await report(each_world, watch, (second, saw("present")), synced=True, part=part(1))
    await report(each_world, watch, (second, saw("present")), synced=True, part=part(1))
    done = await report(each_world, watch, synced=True, part=part(2, last=True))

    assert ([False, False], "running") == (half, running)
    assert (0, 1) == (done["applied"], done["absent"])
    assert [True, True] == [ground(each_world, each).unknown_since is None for each in (first, second)]
    assert "lost" == each_world.state(absent_run)
    assert 0 == each_world.desk.evidence.grounds.sizes()["lists"]


@pytest.mark.origin("D52")
async def test_a_part_that_does_not_follow_is_refused_and_the_list_begins_anew(world: World) -> None:
    watch = await observer(world)
    run_id, _, workspace_id = await standing(world, **IN)

    with pytest.raises(SyncBroken) as never_begun:
        await report(world, watch, part=part(1, last=True))
    await report(world, watch, part=part(0))
    with pytest.raises(SyncBroken) as skipped:
        await report(world, watch, part=part(2, last=True))
    with pytest.raises(SyncBroken):
        await report(world, watch, part=part(1, last=True, sync_id="s2"))
    with pytest.raises(SyncBroken):
        await report(world, watch, part=part(PARTS_MAX - 1))
    with pytest.raises(InvalidCommand):
        await report(world, watch, part=part(PARTS_MAX))
    state = world.state(run_id)
    await report(world, watch, (workspace_id, saw("present")), part=part(0, last=True, sync_id="s3"))

    assert (0, 1, "running") == (never_begun.value.expected, skipped.value.expected, state)
    assert "running" == world.state(run_id)


async def test_a_batch_has_as_many_observations_as_the_limit_says_and_no_more(world: World) -> None:
    watch = await observer(world)
    seen = [("nothing", saw("present"))] * OBSERVATIONS_MAX

    answer = await report(world, watch, *seen)
    with pytest.raises(InvalidCommand) as refused:
        await report(world, watch, *seen, ("nothing", saw("present")))

    assert (OBSERVATIONS_MAX, OBSERVATIONS_MAX + 1) == (answer["ignored"], refused.value.value)


async def test_a_thousand_workspaces_are_told_of_in_one_batch_and_the_lost_ones_once(world: World) -> None:
    watch = await observer(world)
    runs: list[tuple[str, str]] = []
    for number in range(16):
        run_id, fence = await world.held(f"w{number}", ttl=3600)
        for _ in range(60):
            workspace_id = await placed(world, run_id, fence, scope=SCOPE)
            await attached(world, workspace_id, workspace_id)
            runs.append((run_id, workspace_id))
    named = [(workspace_id, saw("present")) for run_id, workspace_id in runs if run_id != runs[0][0]]

    answer = await report(world, watch, *named, synced=True)

    assert (900, 60) == (answer["applied"], answer["absent"])
    states = [world.state(run_id) for run_id in dict.fromkeys(run_id for run_id, _ in runs)]
    assert ["lost"] + ["running"] * 15 == states
    assert 60 == world.names().count("WorkspaceLost")


async def test_of_two_observers_that_report_at_once_one_is_refused_and_there_is_one_loss_each(world: World) -> None:
    first, second = await observer(world), await observer(world, "obs-2", "another-key")
    grounds = [await standing(world, f"w{number}", **IN) for number in range(5)]
    gone = [(workspace_id, saw("gone", reason="PodDeleted")) for _, _, workspace_id in grounds]

    answer, refused = await asyncio.gather(
        report(world, first, *gone, synced=True),
        report(world, second, *reversed(gone), synced=True),
        return_exceptions=True,
    )

    assert 5 == world.names().count("WorkspaceLost")
    assert isinstance(answer, dict)
    assert isinstance(refused, ScopeObserved)
    assert 5 == answer["applied"]


async def test_a_batch_that_is_repeated_under_its_command_id_is_applied_once(each_world: World) -> None:
    watch = await observer(each_world)
    _, _, workspace_id = await standing(each_world, **IN)
    gone = (workspace_id, saw("gone"))

    first = await report(each_world, watch, gone, caller=command("once"))
    facts = len(each_world.names())
    again = await report(each_world, watch, gone, caller=command("once"))

    assert (first, facts) == (again, len(each_world.names()))


def test_the_marks_of_observers_and_lists_are_bounded() -> None:
    marks, now = GroundMarks(), Moment(EPOCH, 0.0)
    for number in range(SCOPES_PER_OBSERVER_MAX + 1):
        marks.watched(("t", f"s{number}"), "run", 1, now)
    for number in range(LISTS_MAX + 1):
        marks.list_begins(("t", f"s{number}"), Listed(sync_id="s", run_id="run"))

    assert (SCOPES_PER_OBSERVER_MAX, LISTS_MAX) == (marks.sizes()["observers"], marks.sizes()["lists"])
    assert marks.observer(("t", "s0")) is None
    assert marks.listing(("t", "s0")) is None


async def test_a_malformed_name_of_a_batch_is_refused(world: World) -> None:
    watch = await observer(world)

    with pytest.raises(InvalidCommand):
        await report(world, watch, observer_id="no name")
    with pytest.raises(InvalidCommand):
        await report(world, watch, scope="")
    with pytest.raises(InvalidCommand):
        await report(world, watch, scope="s" * 257)

    assert {"applied": 0, "ignored": 0, "refused": [], "absent": 0} == await report(world, watch, scope="s" * 256)
