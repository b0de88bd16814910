"""The SDK's operations against a real service."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jackline import (
    AsyncClient,
    Client,
    FenceLost,
    Forbidden,
    IdempotencyMismatch,
    Invalid,
    LeaseHeld,
    LeaseRef,
    LeasesHeld,
    NotFound,
    Retry,
    RunSettled,
    Unauthorised,
    Unknown,
    WorkerUnfit,
    WorkerUnknown,
    WrongState,
)
from tests.client.serving import Service, free_port
from tests.waiting import BOUND_S, eventually, until

pytestmark = pytest.mark.system


def held(client: Client, queue: str, worker_id: str = "sdk", **options: Any) -> LeaseRef:
    """A run of ours that this worker holds."""
    client.register_worker(worker_id, slots=100)
    run_id = client.submit({"n": 1}, queue=queue, **options).run_id
    claims = client.claim(worker_id, [queue])
    assert [run_id] == [claim.run_id for claim in claims]
    return LeaseRef(run_id, claims[0].fence)


def test_a_run_is_submitted_claimed_closed_and_shown(client: Client, queue: str) -> None:
    lease = held(client, queue, name="one", tags={"kind": "x"})
    client.save_partial(lease, {"half": True})
    client.progress(lease, "going", tool={"id": "1", "name": "grep", "state": "started"})
    client.send_output(lease, 1, "hello\n")
    client.send_output(lease, 1, "hello\n")
    closed = client.close(lease, "succeeded", result={"ok": True})
    run = client.run(lease.run_id)

    assert ("succeeded", {"ok": True}, "one", {"kind": "x"}) == (closed.state, run.result, run.name, run.tags)
    assert ["hello\n"] == [chunk.data for chunk in client.output_so_far(lease.run_id)]
    assert run.settled
    assert run.settled_at is not None


def test_facts_come_in_order_as_pages_and_as_a_stream(client: Client, queue: str) -> None:
    lease = held(client, queue)
    client.close(lease, "succeeded")
    pages = list(client.facts(lease.run_id))
    followed = list(client.follow(lease.run_id))
    later = list(client.follow(lease.run_id, after=pages[0].position))

    assert [fact.position for fact in pages] == sorted(fact.position for fact in pages)
    assert ("run.submitted.v1", "run.closed.v1") == (pages[0].topic, followed[-1].topic)
    assert [fact.fact_id for fact in followed] == [fact.fact_id for fact in pages][: len(followed)]
    assert [fact.position for fact in followed[1:]] == [fact.position for fact in later]


def test_output_is_followed_until_the_run_has_ended(client: Client, queue: str) -> None:
    lease = held(client, queue)
    client.send_output(lease, 1, "a")
    client.send_output(lease, 2, "b", stream="stderr")
    client.close(lease, "succeeded")

    assert [("stdout", "a"), ("stderr", "b")] == [(one.stream, one.data) for one in client.output(lease.run_id)]


def test_why_cites_facts_and_says_what_comes_next(client: Client, queue: str) -> None:
    lease = held(client, queue)
    answer = client.why(lease.run_id)

    assert ("running", lease.fence) == (answer.state, answer.fence)
    assert answer.because
    assert answer.next
    assert answer.clocks


def test_waiting_for_a_run_ends_at_its_end_or_at_its_bound(client: Client, queue: str) -> None:
    lease = held(client, queue)
    waited = client.wait(lease.run_id, timeout_s=0.2)
    client.close(lease, "succeeded")

    assert ("running", "succeeded") == (waited.state, client.wait(lease.run_id).state)


def test_many_runs_are_submitted_listed_and_closed_at_once(client: Client, queue: str) -> None:
    receipts = client.submit_many([{"queue": queue, "payload": n, "name": f"n{n}"} for n in range(5)])
    client.register_worker("many", slots=10)
    claims = client.claim("many", [queue], limit=10)
    answers = client.close_many(
        [{"run_id": one.run_id, "fence": one.fence + (one.payload == 3), "outcome": "succeeded"} for one in claims]
    )
    until(lambda: len(list(client.every_run(queue=queue, state="succeeded", limit=2))) == 4, what="four are listed")

    assert [receipt.run_id for receipt in receipts] == [claim.run_id for claim in claims]
    assert ["fence_lost"] == [one["code"] for one in answers if one.get("code")]


def test_a_question_is_answered_to_the_holder_that_kept_its_lease(client: Client, queue: str) -> None:
    lease = held(client, queue)
    parked = client.park(lease, {"which": 1}, keep_lease=True)
    answered = client.answer(lease.run_id, "main")

    assert ("waiting_input", "running") == (parked.state, answered.state)
    assert [({"which": 1}, "main")] == [(one.question, one.answer) for one in answered.answers]


def test_an_effect_is_claimed_once_and_its_outcome_stands(client: Client, queue: str) -> None:
    lease = held(client, queue)
    first = client.claim_effect(lease, "mail/1 é", {"to": "ada"})
    client.complete_effect(lease, "mail/1 é", {"id": 7})
    again = client.claim_effect(lease, "mail/1 é", {"to": "ada"})
    other = client.claim_effect(lease, "mail/1 é", {"to": "bob"})

    assert ("claimed", "existing", {"id": 7}, "mismatch") == (first.answer, again.answer, again.outcome, other.answer)
    assert [("mail/1 é", "completed")] == [(one.key, one.state) for one in client.effects(lease.run_id)]


def test_a_heartbeat_renews_what_is_held_and_says_what_is_lost(client: Client, queue: str) -> None:
    lease = held(client, queue)
    answers = client.heartbeat("sdk", [lease, LeaseRef(lease.run_id, lease.fence + 1)])

    assert [("renewed", 60.0), ("lost", None)] == [(one.outcome, one.ttl_s) for one in answers]
    assert lease.fence == answers[1].current


def test_a_reservation_is_bound_or_given_back(client: Client, queue: str) -> None:
    client.register_worker("patient", slots=2)
    run_id = client.submit(queue=queue).run_id
    first = client.reserve("patient", [queue])
    assert first is not None
    assert "reserved" == client.run(run_id).state
    client.cancel_reservation(first.token)
    second = client.reserve("patient", [queue])
    assert second is not None
    claim = client.bind(second.token, "patient")

    assert (run_id, first.fence + 1, second.fence) == (claim.run_id, second.fence, claim.fence)


def test_refusals_come_as_their_own_classes_with_their_values(client: Client, queue: str) -> None:
    lease = held(client, queue)
    with pytest.raises(LeaseHeld) as held_by:
        client.claim_run(lease.run_id, "sdk")
    assert ("sdk", lease.fence) == (held_by.value.holder, held_by.value.fence)
    assert held_by.value.retry_after_s is not None
    with pytest.raises(LeasesHeld):
        client.leave("sdk")
    with pytest.raises(WrongState):
        client.answer(lease.run_id, 1)
    with pytest.raises(NotFound):
        client.run("no-such-run")
    with pytest.raises(WorkerUnknown):
        client.claim("nobody", [queue])
    with pytest.raises(Invalid):
        client.submit(queue="")
    with pytest.raises(Invalid):
        client.submit(policy={"max_attempts": 0})
    client.close(lease, "succeeded")
    with pytest.raises(RunSettled) as settled:
        client.cancel(lease.run_id)
    assert "succeeded" == settled.value.state


def test_the_same_idempotency_key_gets_the_same_receipt_and_another_body_is_refused(client: Client, queue: str) -> None:
    first = client.submit({"n": 1}, queue=queue, idempotency_key="k")
    again = client.submit({"n": 1}, queue=queue, idempotency_key="k")

    assert first == again
    with pytest.raises(IdempotencyMismatch):
        client.submit({"n": 2}, queue=queue, idempotency_key="k")


def test_a_claim_repeated_under_its_key_gets_the_same_grants(client: Client, queue: str) -> None:
    client.register_worker("repeats", slots=10)
    client.submit_many([{"queue": queue} for _ in range(3)])
    first = client.claim("repeats", [queue], limit=2, key="claim-1")

    assert first == client.claim("repeats", [queue], limit=2, key="claim-1")
    assert 1 == len(client.claim("repeats", [queue], limit=2, key="claim-2"))


def test_a_draining_worker_is_granted_nothing_until_it_registers_again(client: Client, queue: str) -> None:
    client.register_worker("drains")
    client.submit(queue=queue)
    client.drain_worker("drains")
    with pytest.raises(WorkerUnfit):
        client.claim("drains", [queue])
    client.leave("drains")
    client.register_worker("drains")

    assert 1 == len(client.claim("drains", [queue]))


def test_keys_open_what_their_role_allows_until_they_are_revoked(shared: Service, client: Client, queue: str) -> None:
    made = client.create_key("reads-only", "reader")
    with Client(shared.client().url, made.key) as reader:
        assert "reader" == reader.whoami().role
        with pytest.raises(Forbidden):
            reader.submit(queue=queue)
        client.revoke_key(made.key_id)
        with pytest.raises(Unauthorised):
            reader.whoami()

    assert made.key_id in [key.key_id for key in client.keys()]
    assert all(key.key is None for key in client.keys())


def test_a_queues_limit_holds(client: Client, queue: str) -> None:
    client.set_queue(queue, max_leases=1)
    client.submit_many([{"queue": queue} for _ in range(2)])
    client.register_worker("limited", slots=5)

    assert 1 == len(client.claim("limited", [queue], limit=5))
    assert 1 == next(one["max_leases"] for one in client.queues() if one["queue"] == queue)


def test_health_and_version_are_told(client: Client) -> None:
    assert client.ready()
    assert client.health()["status"] in ("ok", "degraded")
    assert client.version()["version"]


def test_no_answer_is_unknown_and_carries_the_key_to_ask_again_with() -> None:
    with Client(f"http://127.0.0.1:{free_port()}", "k", retry=Retry(patience_s=0.0)) as client:
        assert not client.ready()
        with pytest.raises(Unknown) as unknown:
            client.submit()

    assert unknown.value.idempotency_key


def test_a_command_outlasts_a_restart_of_the_service(own_service: Service) -> None:
    async def story() -> tuple[str, str]:
        async with AsyncClient(data_dir=own_service.data_dir, retry=Retry(patience_s=30.0)) as client:
            first = await client.submit({"n": 1})
            own_service.kill()
            asking = asyncio.create_task(client.submit({"n": 2}))
            await asyncio.to_thread(own_service.start)
            second = await asking
            followed = [fact.topic async for fact in client.facts(second.run_id)]
            return first.run_id, followed[0]

    own_service.start()

    assert "run.submitted.v1" == asyncio.run(story())[1]


def test_a_restart_that_fell_between_two_questions_is_noticed_once_at_the_next(own_service: Service) -> None:
    async def ask() -> list[int]:
        heard: list[int] = []
        async with AsyncClient(data_dir=own_service.data_dir, retry=Retry(patience_s=30.0)) as client:
            with client.transport.telling(lambda: heard.append(len(heard))):
                for _ in range(2):
                    await client.whoami()
                before = len(heard)
                own_service.kill()
                await asyncio.to_thread(own_service.start)
                for _ in range(2):
                    await client.whoami()
            own_service.kill()
            await asyncio.to_thread(own_service.start)
            await client.whoami()
        return [before, len(heard)]

    own_service.start()

    assert [0, 1] == asyncio.run(ask())


def test_following_goes_on_across_a_restart_of_the_service_and_misses_nothing(own_service: Service) -> None:
    own_service.start()

    async def story() -> tuple[list[int], list[int]]:
        async with AsyncClient(data_dir=own_service.data_dir, retry=Retry(patience_s=30.0)) as client:
            await client.register_worker("w")
            run_id = (await client.submit()).run_id
            seen: list[int] = []

            async def follow() -> None:
                async for fact in client.follow(run_id):
                    seen.append(fact.position)

            following = asyncio.create_task(follow())

            async def has_seen() -> bool:
                return bool(seen)

            await eventually(has_seen, what="the first fact is seen")
            own_service.kill()
            await asyncio.to_thread(own_service.start)
            claim = await client.claim_run(run_id, "w")
            await client.close(LeaseRef(run_id, claim.fence), "succeeded")
            await asyncio.wait_for(following, BOUND_S)
            return seen, [fact.position async for fact in client.facts(run_id)]

    seen, recorded = asyncio.run(story())

    assert recorded[: len(seen)] == seen
    assert len(seen) >= len(recorded) - 1


def test_output_is_followed_across_an_orderly_restart_of_the_service(own_service: Service) -> None:
    own_service.start()
    seen: list[str] = []
    with own_service.client() as client, own_service.client() as other, ThreadPoolExecutor(1) as pool:

        def follow(run_id: str) -> None:
            for chunk in other.output(run_id):
                seen.append(chunk.data)

        lease = held(client, "q")
        client.send_output(lease, 1, "before ")
        following = pool.submit(follow, lease.run_id)
        until(lambda: seen, what="the first piece is seen")
        stopped = own_service.stop()
        own_service.start()
        client.send_output(lease, 2, "after")
        client.close(lease, "succeeded")
        following.result(timeout=BOUND_S)

    assert (0, ["before ", "after"]) == (stopped, seen)


def test_a_stale_fence_is_refused_in_both_clients_alike(client: Client, queue: str) -> None:
    lease = held(client, queue)
    stale = LeaseRef(lease.run_id, lease.fence - 1 or 99)

    async def ask() -> None:
        async with AsyncClient(client.url, client.transport.address.key) as other:
            await other.close(stale, "succeeded")

    with pytest.raises(FenceLost):
        client.close(stale, "succeeded")
    with pytest.raises(FenceLost):
        asyncio.run(ask())
