"""What an API server can do to whoever watches it: break, freeze, refuse, forget, repeat itself, and talk nonsense.

Nothing of it may make a loss that is none, a crash, or a flood of requests; and what cannot be seen is unknown.
"""

import json

from tests.watchers.fake_apiserver import Asked, Fault
from tests.watchers.scenarios import scenario
from tests.watchers.world import World


def on_everything(fault: Fault) -> object:
    """The fault, for every request."""
    return lambda asked: fault


def on_watches(fault: Fault) -> object:
    """The fault, for every watch of pods."""
    return lambda asked: fault if asked.watches and asked.plural == "pods" else None


async def _blinded(world: World, fault: Fault) -> None:
    """The scope goes out of sight, and comes back."""
    await world.pod("a")
    await world.observe()
    world.api.fault = lambda asked: fault
    world.api.cut()
    await world.unknown("a")
    world.api.fault = lambda asked: None

    await world.known("a")


@scenario(fake=True)
async def a_stream_that_breaks_is_resumed_and_nobody_is_told(world: World) -> None:
    await world.pod("a")
    await world.observe()
    asked = len(world.api.asked)
    world.api.cut()
    await world.until(lambda: len(world.api.asked) > asked, "it is resumed")
    await world.status("a", phase="Failed", reason="Evicted")
    await world.lost("a", "Evicted")

    assert not any(one.kind == "watch_dropped" for one in world.ground("a").seen)


@scenario(fake=True)
async def a_server_that_dies_makes_everything_unknown_until_it_is_back(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.api.stop()
    await world.unknown("a")
    await world.api.restart()

    await world.known("a")


@scenario(fake=True)
async def a_pod_deleted_while_the_server_was_out_of_sight_is_lost_afterwards(world: World) -> None:
    await world.pod("a")
    await world.pod("b")
    await world.observe()
    world.api.fault = lambda asked: Fault(status=503)
    world.api.cut()
    await world.unknown("a")
    await world.hands.delete("pods", "a", force=True)
    world.api.fault = lambda asked: None

    await world.lost("a", "PodDeleted")
    await world.known("b")


@scenario(fake=True)
async def a_frozen_server_is_noticed_and_its_thaw_too(world: World) -> None:
    await world.pod("a")
    await world.observe()
    world.api.frozen.clear()
    await world.unknown("a")
    world.api.frozen.set()

    await world.known("a")


@scenario(fake=True)
async def a_watch_that_trickles_without_a_line_is_cut_in_time(world: World) -> None:
    await world.pod("a")
    await world.observe()
    world.api.fault = lambda asked: Fault(stall_after=10) if asked.watches else None
    world.api.cut()

    await world.unknown("a")


@scenario(fake=True)
async def a_version_that_expired_in_the_stream_is_listed_again(world: World) -> None:
    await world.pod("a")
    observing = await world.observe()
    before = observing.counts["lists"]
    await world.api.write(lambda store: store.compact())
    await world.api.write(lambda store: setattr(store, "floor", store.version + 1))
    world.api.cut()
    await world.until(lambda: observing.counts["expired"] >= 1, "it has expired")
    await world.api.write(lambda store: setattr(store, "floor", 0))
    await world.until(lambda: observing.counts["lists"] > before, "it is listed again")
    await world.status("a", phase="Failed", reason="Evicted")

    await world.lost("a", "Evicted")


@scenario(fake=True)
async def a_version_that_expired_by_status_is_listed_again(world: World) -> None:
    await world.pod("a")
    observing = await world.observe()
    world.api.fault = lambda asked: Fault(expired=True) if asked.watches else None
    world.api.cut()
    await world.until(lambda: observing.counts["expired"] >= 1, "it has expired")
    world.api.fault = lambda asked: None
    await world.status("a", phase="Failed", reason="Evicted")

    await world.lost("a", "Evicted")


@scenario(fake=True)
async def an_expiry_without_end_is_not_answered_by_a_flood(world: World) -> None:
    await world.pod("a")
    observing = await world.observe()
    asked = len(world.api.asked)
    world.api.fault = lambda asked: Fault(expired=True) if asked.watches and asked.plural == "pods" else None
    world.api.cut()
    await world.until(lambda: observing.counts["expired"] >= 10, "it has expired ten times", within_s=20)

    assert len(world.api.asked) - asked < 150
    assert world.ground("a").phase == "running"


@scenario(fake=True)
async def a_continuation_that_expires_begins_the_list_anew(world: World) -> None:
    for number in range(5):
        await world.pod(f"p{number}")
    world.api.fault = lambda asked: Fault(expired=True) if "continue" in asked.query else None
    await world.begin()
    await world.until(lambda: world.count("expired") >= 2, "the continuation has expired twice")
    world.api.fault = lambda asked: None
    await world.until(lambda: world.ledger.synced >= 1, "the scope is stated")

    assert all(ground.phase == "running" for ground in world.ledger.grounds.values())


@scenario(fake=True)
async def too_many_requests_is_waited_for(world: World) -> None:
    await _blinded(world, Fault(status=429))


@scenario(fake=True)
async def a_server_in_trouble_makes_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(status=500))


@scenario(fake=True)
async def a_right_that_was_taken_away_makes_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(status=403))


@scenario(fake=True)
async def credentials_that_are_not_accepted_make_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(status=401))


@scenario(fake=True)
async def refused_connections_make_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(refuse=True))


@scenario(fake=True)
async def answers_that_are_not_json_make_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(raw=b"<html>503 from a proxy</html>\n"))


@scenario(fake=True)
async def answers_that_are_not_text_make_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(raw=b'{"type": "ADDED\xff\xfe", "object": {}}\n'))


@scenario(fake=True)
async def answers_that_claim_to_be_compressed_make_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(raw=b"\x1f\x8b\x08\x00" + b"\x00" * 64 + b"\n", headers={"Content-Encoding": "gzip"}))


@scenario(fake=True)
async def json_that_is_nested_without_end_makes_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(raw=b"[" * 100_000 + b"\n"))


@scenario(fake=True)
async def a_change_of_an_unknown_type_makes_everything_unknown(world: World) -> None:
    line = {"type": "REBORN", "object": {"metadata": {"uid": "u", "name": "a"}}}
    await _blinded(world, Fault(raw=json.dumps(line).encode() + b"\n"))


@scenario(fake=True)
async def an_object_without_a_uid_makes_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(raw=b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n'))


@scenario(fake=True)
async def a_list_without_a_version_makes_everything_unknown(world: World) -> None:
    await _blinded(world, Fault(raw=b'{"metadata": {}, "items": []}\n'))


@scenario(fake=True)
async def an_endless_line_is_bounded_and_unknown(world: World) -> None:
    await _blinded(world, Fault(raw=b"x" * 65_536, endless=True))


@scenario(fake=True)
async def an_answer_that_is_cut_is_nothing(world: World) -> None:
    await _blinded(world, Fault(cut_after=20))


@scenario(fake=True)
async def half_a_line_is_no_line(world: World) -> None:
    await world.pod("a")
    await world.observe()
    cuts = iter([Fault(cut_after=200)])

    def once(asked: Asked) -> Fault | None:
        return next(cuts, None) if asked.watches and asked.plural == "pods" else None

    world.api.fault = once
    world.api.cut()
    await world.until(lambda: next(iter(cuts), None) is None, "a stream is cut in the middle of a line")
    await world.status("a", phase="Failed", reason="Evicted")

    await world.lost("a", "Evicted")


@scenario(fake=True)
async def whatever_is_said_twice_is_told_once(world: World) -> None:
    await world.pod("a")
    world.api.fault = lambda asked: Fault(twice=True)
    await world.observe()
    await world.status("a", phase="Failed", reason="Evicted")
    await world.lost("a", "Evicted")
    await world.hands.delete("pods", "a", force=True)
    await world.told("a", "gone")

    assert ["ended", "gone"] == [one.kind for one in world.ground("a").seen if one.kind in ("ended", "gone")]


@scenario(fake=True)
async def streams_that_end_at_once_are_not_answered_by_a_flood(world: World) -> None:
    await world.pod("a")
    await world.observe()
    asked = len(world.api.asked)
    world.api.fault = lambda asked: Fault(raw=b"") if asked.watches and asked.plural == "pods" else None
    world.api.cut()
    await world.unknown("a")

    assert len(world.api.asked) - asked < 50


@scenario(fake=True)
async def a_bookmark_moves_the_version_so_that_compaction_costs_nothing(world: World) -> None:
    await world.pod("a")
    observing = await world.observe()
    lists = observing.counts["lists"]
    await world.node("elsewhere")
    watches = sum(one.watches for one in world.api.asked)
    await world.until(lambda: sum(one.watches for one in world.api.asked) >= watches + 4, "streams have ended")
    await world.api.write(lambda store: store.compact())
    await world.until(lambda: sum(one.watches for one in world.api.asked) >= watches + 8, "streams have ended again")

    assert (lists, 0) == (observing.counts["lists"], observing.counts["expired"])


@scenario(fake=True, relist_s=0.5)
async def a_version_from_a_lost_future_is_given_up_by_the_next_list(world: World) -> None:
    """An etcd that was restored: the server waits for versions that it will reach in a year."""
    await world.pod("a")
    await world.observe()
    await world.api.write(lambda store: setattr(store, "version", 10))
    await world.hands.delete("pods", "a", force=True)

    await world.lost("a", "PodDeleted")


@scenario(fake=True)
async def nulls_are_as_good_as_nothing(world: World) -> None:
    await world.pod("a")

    def sprinkle(found: dict[str, dict[str, object]]) -> None:
        found["metadata"] |= {"deletionTimestamp": None, "annotations": None, "ownerReferences": None, "name": "a"}
        found["status"] |= {"message": None, "initContainerStatuses": None, "phase": None}

    await world.api.write(lambda store: sprinkle(store.objects[("pods", "default", "a")]))
    observing = await world.observe()

    assert 1 == len(observing.view.bodies)


@scenario(fake=True)
async def a_label_check_that_fails_is_no_proof_of_an_end(world: World) -> None:
    """The pod leaves the list, and the server cannot be asked whether it is there."""
    await world.pod("a")
    await world.observe()
    world.api.fault = lambda asked: Fault(status=500) if asked.name == "a" else None
    await world.hands.patch("pods", "a", {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})
    await world.unknown("a")
    world.api.fault = lambda asked: None

    await world.known("a")


@scenario(fake=True, objects_max=3)
async def as_many_objects_as_are_allowed_are_seen(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.pod(name)
    observing = await world.observe()

    assert 3 == len(observing.view.bodies)


@scenario(fake=True, objects_max=3)
async def one_object_more_than_allowed_makes_everything_unknown(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.pod(name)
    await world.observe()
    await world.pod("d")

    await world.unknown("a")


@scenario(fake=True)
async def a_server_that_is_out_of_reach_from_the_start_makes_everything_unknown(world: World) -> None:
    await world.pod("a")
    world.api.fault = lambda asked: Fault(refuse=True)
    await world.begin()
    await world.unknown("a")
    world.api.fault = lambda asked: None

    await world.known("a")


@scenario(fake=True)
async def a_server_that_forgets_everything_from_the_start_is_asked_again(world: World) -> None:
    await world.pod("a")
    world.api.fault = lambda asked: Fault(expired=True)
    await world.begin()
    await world.until(lambda: len(world.api.asked) >= 3, "it is asked again")
    world.api.fault = lambda asked: None
    await world.status("a", phase="Failed", reason="Evicted")

    await world.lost("a", "Evicted")
