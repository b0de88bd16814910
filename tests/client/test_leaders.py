"""Leaders by the SDK: present while a block lasts, whatever happens to the line and to the service."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from jackline import (
    AsyncClient,
    Client,
    Fact,
    FactsMissed,
    Forbidden,
    HeldRun,
    Invalid,
    Leader,
    LeaderInfo,
    LeaseRef,
    Retry,
    RevisionStale,
    Run,
    TimeoutAnswered,
    TimeoutUnknown,
    Unknown,
    Worker,
    presence,
)
from jackline.address import find
from jackline.clock import SYSTEM
from tests.client.between import Between
from tests.client.serving import Service, free_port
from tests.waiting import BOUND_S, eventually, until

pytestmark = pytest.mark.system

GRACE_S = 1.5
"""Short, for tests in which it passes. Where a leader must be back in time, the service has its own 60 s: how soon a
client is back depends on the machine (it pauses up to 2 s between attempts), and is not what is tested."""
BEYOND_S = GRACE_S + 1.5  # an absence that is certainly longer than the grace
SESSION_TTL_S = 3.0
"""Ten times what lies between two beats, so that a busy machine does not end a session that is kept."""
SETTINGS = {"JACKLINE_LEADER_GRACE_S": str(GRACE_S)}


@pytest.fixture(scope="module")
def shared(jackline_script: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(jackline_script, tmp_path_factory.mktemp("service"), SETTINGS).start()
    yield service
    service.close()


@pytest.fixture
def name(queue: str) -> str:
    return f"leader-{queue}"


def counted(client: Client, name: str, connections: int) -> LeaderInfo:
    """The leader, once it has that many connections."""

    def look() -> LeaderInfo | None:
        shown = client.show_leader(name)
        return shown if shown.connections == connections else None

    return until(look, what=f"{name} has {connections} connections")


def test_a_leader_is_connected_while_the_block_lasts_and_absent_after_it(client: Client, name: str) -> None:
    with client.leader(name) as leader:
        during = client.show_leader(name)
        connected_by, away_since = leader.connected_by, leader.away_since
        listed = [one.leader_id for one in client.leaders()]
    after = counted(client, name, 0)

    assert (1, "stream", None) == (during.connections, connected_by, away_since)
    assert name in listed
    assert after.zero_since is not None


@pytest.mark.origin("A1")
def test_what_a_leader_leaves_is_settled_after_its_grace_and_told_when_it_is_back(
    client: Client, name: str, queue: str
) -> None:
    with client.leader(name) as leader:
        run_id = leader.submit(1, queue=queue, name="left").run_id
    run = client.wait(run_id, BOUND_S)
    with client.leader(name) as leader:
        until(lambda: leader.settled_while_away, what="it is told")
        told, away_since = leader.settled_while_away, leader.away_since

    assert ("cancelled", "leader_gone") == (run.state, run.reason)
    assert [(run_id, "left", "cancelled", "leader_gone")] == [
        (one.run_id, one.name, one.state, one.reason) for one in told
    ]
    assert away_since is not None
    assert run.settled_at is not None
    assert away_since < run.settled_at


def test_a_leader_that_returns_within_its_grace_loses_nothing(own_service: Service) -> None:
    own_service.start()
    with own_service.client() as client:
        with client.leader("ada") as leader:
            run_id = leader.submit(1).run_id
        counted(client, "ada", 0)
        with client.leader("ada") as leader:
            run = client.run(run_id)
            told, away_since = leader.settled_while_away, leader.away_since

    assert ("queued", []) == (run.state, told)
    assert away_since is not None


def test_two_connections_under_one_leader_id_are_counted(client: Client, name: str) -> None:
    with client.leader(name), client.leader(name):
        counted(client, name, 2)
    counted(client, name, 0)


def test_a_leader_follows_the_facts_of_its_own_runs_and_of_no_others(client: Client, name: str, queue: str) -> None:
    with client.leader(name) as leader:
        client.submit(0, queue=queue)
        first, second = leader.submit_many([{"queue": queue}, {"queue": queue}])
        facts = leader.facts()
        told = [next(facts), next(facts)]
        client.cancel(first.run_id)
        told += [next(facts), next(facts)]
        client.cancel(second.run_id)

    assert ["run.submitted.v1", "run.submitted.v1"] == [fact.topic for fact in told[:2]]
    assert [fact.position for fact in told] == sorted({fact.position for fact in told})


def test_the_asynchronous_leader_stays_across_a_restart_and_misses_no_fact(own_service: Service) -> None:
    own_service.start()

    async def story() -> tuple[Run, list[int], list[int]]:
        async with (
            AsyncClient(data_dir=own_service.data_dir, retry=Retry(patience_s=30.0)) as client,
            client.leader("ada") as leader,
        ):
            run_id = (await leader.submit(1)).run_id
            facts = leader.facts()
            seen = [(await anext(facts)).position]
            own_service.kill()
            await asyncio.to_thread(own_service.start)

            async def back() -> bool:
                return (await client.show_leader("ada")).connections == 1

            await eventually(back, what="the leader is back", within_s=30)
            run = await client.run(run_id)
            await client.cancel(run_id)
            async for fact in facts:
                seen.append(fact.position)
                if fact.topic == "run.settled.v1":
                    break
            recorded = [fact.position async for fact in client.facts(run_id) if fact.topic.startswith("run.")]
            return run, seen, recorded

    run, seen, recorded = asyncio.run(story())

    assert "queued" == run.state
    assert recorded == seen


def test_a_leader_is_kept_while_its_process_does_something_else(own_service: Service) -> None:
    own_service.start()
    with own_service.client() as client, client.leader("busy") as leader:
        run_id = leader.submit(1).run_id
        own_service.kill()
        own_service.start()
        until(lambda: client.show_leader("busy").connections == 1, what="the leader is back", within_s=30)
        until(lambda: leader.connected_by == "stream", what="the leader knows it")

        assert "queued" == client.run(run_id).state


def test_a_leader_that_may_not_be_is_refused_as_it_enters(shared: Service, client: Client, name: str) -> None:
    key = client.create_key("only-reads", "reader").key
    with Client(client.url, key) as reader, pytest.raises(Forbidden), reader.leader(name):
        pass
    with pytest.raises(Invalid), client.leader("no such name!"):
        pass


def test_a_key_that_is_revoked_ends_the_presence_and_says_so(client: Client, name: str) -> None:
    made = client.create_key("revoked-soon", "leader", leader_ids=[name])
    with Client(client.url, made.key) as other, other.leader(name) as leader:
        client.revoke_key(made.key_id)
        with pytest.raises(Exception, match="unauthenticated"):
            list(leader.facts())

        assert leader.connected_by is None


def test_nobody_to_be_a_leader_of_is_unknown() -> None:
    with (
        Client(f"http://127.0.0.1:{free_port()}", "k", retry=Retry(patience_s=0.3)) as client,
        pytest.raises(Unknown, match="leader ada"),
        client.leader("ada"),
    ):
        pass


def test_facts_that_nobody_takes_are_dropped_and_said_to_be_missed(
    client: Client, name: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "FACTS_MAX", 2)
    with client.leader(name) as leader:
        leader.submit_many([{"queue": queue} for _ in range(5)])
        until(lambda: _missed(leader), what="facts are missed")
        client.cancel_many({"queue": queue}, dry_run=False)


def _missed(leader: Leader) -> bool:
    facts = leader.facts()
    try:
        for _ in range(2):
            next(facts)
    except FactsMissed:
        return True
    return False


@pytest.fixture
def between(client: Client) -> Iterator[Between]:
    proxy = Between(client.url)
    yield proxy
    proxy.close()


def test_where_streams_cannot_be_kept_a_session_stands_in(
    client: Client, between: Between, name: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "SESSION_TTL_S", SESSION_TTL_S)
    monkeypatch.setattr(presence, "SESSION_BEAT_S", 0.3)
    lost = client.submit(1, queue=queue, leader_id=name).run_id
    client.wait(lost, BOUND_S)
    with Client(between.url, client.transport.address.key) as far, far.leader(name) as leader:
        run_id = leader.submit(1, queue=queue).run_id
        until(lambda: leader.settled_while_away, what="it is told what was settled")
        kept = client.wait(run_id, SESSION_TTL_S + BEYOND_S)
        until(lambda: between.streams_refused > 1, what="a stream is tried again")
        told, connected_by = leader.settled_while_away, leader.connected_by
    until(lambda: client.show_leader(name).connections == 0, what="it has left")

    assert ("queued", "session", [lost]) == (kept.state, connected_by, [one.run_id for one in told])


def test_a_session_is_kept_by_hand_and_left(client: Client, name: str) -> None:
    kept = client.keep_session(name, "s1", ttl_s=30.0)
    client.leave_session(name, "s1")

    assert (1, 0) == (kept.connections, client.show_leader(name).connections)
    with pytest.raises(Invalid):
        client.keep_session(name, "s1", ttl_s=-1.0)


def test_a_run_is_reassigned_at_the_revision_that_was_seen(client: Client, name: str, queue: str) -> None:
    with client.leader(name) as leader, client.leader(f"{name}-2"):
        run_id = leader.submit(1, queue=queue).run_id
        seen = client.run(run_id).revision
        moved = client.reassign(run_id, f"{name}-2", seen)
        with pytest.raises(RevisionStale) as stale:
            client.reassign(run_id, name, seen)

    assert (f"{name}-2", moved.revision) == (moved.leader_id, stale.value.current)
    assert seen == stale.value.presented


def test_a_timeout_is_answered_once(client: Client, name: str, queue: str) -> None:
    client.register_worker("slow", slots=10)
    with client.leader(name) as leader:
        run_id = leader.submit(1, queue=queue, policy={"total_after_s": 0.5, "quiet_after_s": 300.0}).run_id
        client.claim("slow", [queue])
        timeout = until(lambda: [one for one in client.facts(run_id) if "timeout" in one.topic], what="it is overdue")[
            0
        ]
        with pytest.raises(TimeoutUnknown):
            client.acknowledge_timeout(run_id, "no-such-fact", "extend")
        extended = client.acknowledge_timeout(run_id, timeout.fact_id, "extend")
        with pytest.raises(TimeoutAnswered) as answered:
            client.acknowledge_timeout(run_id, timeout.fact_id, "abort")
        until(lambda: len([one for one in client.facts(run_id) if one.topic == timeout.topic]) > 1, what="it is again")
        second = [one for one in client.facts(run_id) if one.topic == timeout.topic][-1]
        client.acknowledge_timeout(run_id, second.fact_id, "abort")

    assert ("running", "extend") == (extended.state, answered.value.answer)
    assert "aborted" == client.run(run_id).state


def test_many_runs_are_cancelled_by_what_they_have_in_common(client: Client, queue: str) -> None:
    wanted = [client.submit(n, queue=queue, tags={"batch": "a"}).run_id for n in range(3)]
    other = client.submit(9, queue=queue, tags={"batch": "b"}).run_id
    foretold = client.cancel_many({"queue": queue, "tags": {"batch": "a"}}, limit=2)
    untouched = {client.run(run_id).state for run_id in wanted}
    done = client.cancel_many({"queue": queue, "tags": {"batch": "a"}}, dry_run=False)

    assert (3, wanted[:2]) == (foretold.matching, [one.run_id for one in foretold.runs])
    assert {"queued"} == untouched
    assert [(run_id, "cancelled") for run_id in wanted] == [(one.run_id, one.state) for one in done.runs]
    assert "queued" == client.run(other).state


def test_a_worker_is_put_aside_and_brought_back(client: Client, queue: str) -> None:
    client.register_worker("aside")
    client.quarantine("aside", "looks odd")
    put_aside = next(one.state for one in client.workers() if one.worker_id == "aside")
    client.release("aside")

    assert ("quarantined", "active") == (
        put_aside,
        next(one.state for one in client.workers() if one.worker_id == "aside"),
    )


def test_a_quiet_holder_under_a_connected_leader_is_left_alone(client: Client, name: str, queue: str) -> None:
    client.register_worker("quiet", slots=10)
    with client.leader(name) as leader:
        run_id = leader.submit(1, queue=queue).run_id
        claim = client.claim("quiet", [queue])[0]
        run = client.wait(run_id, BEYOND_S)
        client.close(LeaseRef(run_id, claim.fence), "succeeded")

    assert "running" == run.state


@pytest.mark.origin("H2")
@pytest.mark.parametrize("late", [False, True], ids=["ends", "saves-too-late"])
def test_a_handler_whose_runs_leader_is_gone_is_cancelled_and_reported(shared: Service, name: str, late: bool) -> None:
    ended: list[str] = []

    async def handler(run: HeldRun) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(run.run_id)
            if late:
                await run.partial.save("too late")
            raise

    async def story() -> tuple[Run, list[Fact]]:
        async with AsyncClient(data_dir=shared.data_dir, retry=Retry(patience_s=10.0)) as client:
            worker = Worker(client, f"w-{name}")
            worker.handles(name)(handler)
            working = asyncio.create_task(worker.run())
            async with client.leader(name) as leader:
                run_id = (await leader.submit(queue=name)).run_id

                async def runs() -> bool:
                    return (await client.run(run_id)).state == "running"

                await eventually(runs, what="it is handled")
            run = await client.wait(run_id, BOUND_S)

            async def reports() -> list[Fact]:
                return [one async for one in client.facts(run_id) if one.topic == "run.stop_reported.v1"]

            reported = await eventually(reports, what="the stop is reported")
            worker.stop()
            await asyncio.wait_for(working, 20)
            return run, reported

    run, reported = asyncio.run(story())

    assert ("cancelled", "leader_gone", None) == (run.state, run.reason, run.partial)
    assert (["saved"], [run.run_id]) == ([fact.data["report"] for fact in reported], ended)


async def test_a_leader_that_was_told_of_more_than_there_is_since_a_restore_is_told_from_the_beginning(
    shared: Service,
) -> None:
    there = presence.Presence(find(data_dir=shared.data_dir), SYSTEM, "restored")
    there._parser.last_id = "999999"

    async def by_stream() -> bool:
        return there.by == "stream"

    being = asyncio.create_task(there.run())
    try:
        await eventually(by_stream, what="it has a stream", within_s=120)
    finally:
        being.cancel()
        await asyncio.gather(being, return_exceptions=True)
