"""The provisioner: one idempotent step at a time, because the service's list says so."""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import pytest

from jackline.clock import Clock
from jackline.errors import FenceLost, Unknown
from tests.watchers.fake_apiserver import FakeApiServer, Fault, fake_apiserver
from tests.watchers.fake_store import PODS, Store
from tests.watchers.kubelet import ended_at_once, unwilling, willing
from tests.watchers.ledger import Ledger
from tests.watchers.world import BOUNDS, NAMESPACE
from watchers.kubernetes.credentials import Access, Nobody
from watchers.kubernetes.provider import KubernetesProvider, Making
from watchers.kubernetes.provisioner import AT_ONCE, Provisioner, Rhythm
from watchers.kubernetes.server import ApiServer

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SPEC = {"spec": {"containers": [{"name": "main", "image": "harness:1"}]}}
KEY = (PODS, NAMESPACE, "jackline-w1")


class Shop:
    """A provisioner on a fake cluster, an hour that is moved by hand, and a chance that is given."""

    def __init__(self, api: FakeApiServer) -> None:
        self.api = api
        self.ledger = Ledger()
        self.server = ApiServer(Access(api.url, False, Nobody()), BOUNDS)
        self.now, self.chance = 1000.0, 0.5
        self.provisioner = self.again()

    def again(self) -> Provisioner:
        """A provisioner that was started anew."""
        clock = Clock(now=lambda: self.now, chance=lambda: self.chance, new_id=lambda: "id")
        provider = KubernetesProvider(self.server, Making(NAMESPACE), lambda: NOON)
        self.provisioner = Provisioner(provider, self.ledger, clock, Rhythm(round_s=0.01))
        return self.provisioner

    @property
    def made(self) -> int:
        """How many bodies were asked to be made."""
        return sum(one.method == "POST" for one in self.api.asked)


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    """A cluster that runs whatever it is given."""
    async with fake_apiserver() as api:
        api.after = willing
        shop = Shop(api)
        yield shop
        await shop.server.close()


async def test_a_workspace_that_is_placing_is_made_and_attached(shop: Shop) -> None:
    ground = shop.ledger.place("w1", SPEC)
    await shop.provisioner.round()

    assert ("running", "jackline-w1") == (ground.phase, ground.details["pod"])
    assert ground.identity == f"pod:{shop.api.store.objects[KEY]['metadata']['uid']}"


@pytest.mark.origin("C30")
async def test_waiting_for_a_node_is_told_once_per_message_and_ends_with_room(shop: Shop) -> None:
    shop.api.after = unwilling
    ground = shop.ledger.place("w1", SPEC)
    for _ in range(3):
        shop.provisioner.wake("w1")
        await shop.provisioner.round()
    assert ("placing", "node: 0/3 nodes are available") == (ground.phase, ground.waiting)
    shop.api.after = willing
    await shop.api.write(lambda store: None)
    shop.provisioner.wake("w1")
    await shop.provisioner.round()

    assert ("running", 1) == (ground.phase, shop.made)


async def test_a_body_that_waits_is_not_asked_for_in_every_round(shop: Shop) -> None:
    shop.api.after = unwilling
    shop.ledger.place("w1", SPEC)
    await shop.provisioner.round()
    asked = len(shop.api.asked)
    await shop.provisioner.round()
    assert asked == len(shop.api.asked)
    shop.now += 30.0
    await shop.provisioner.round()

    assert asked < len(shop.api.asked)


@pytest.mark.origin("C8", "R18")
async def test_a_body_that_cannot_come_to_be_is_a_fault_and_no_loss(shop: Shop) -> None:
    ground = shop.ledger.place("w1", {"spec": {"hostNetwork": True}})
    await shop.provisioner.round()

    assert "provision_failed" == ground.phase
    assert ground.loss is not None
    assert "hostNetwork may not be asked for" in str(ground.loss.message)


@pytest.mark.origin("D62")
@pytest.mark.parametrize("lost_answers", range(4))
async def test_killed_and_started_anew_after_any_step_it_makes_one_body(shop: Shop, lost_answers: int) -> None:
    ground = shop.ledger.place("w1", SPEC)
    shop.ledger.unanswered = lost_answers
    for _ in range(6):
        with suppress(Unknown):
            await shop.again().round()
        shop.now += 31.0

    assert ("running", 1) == (ground.phase, len(shop.api.store.objects))


@pytest.mark.origin("C12", "C14", "H16", "C28")
async def test_assertions_are_made_from_the_making_on_every_five_minutes_give_or_take_a_fifth(shop: Shop) -> None:
    shop.api.after = unwilling
    ground = shop.ledger.place("w1", SPEC)
    shop.chance = 0.0
    await shop.provisioner.round()
    assert 1 == ground.asserted
    for step_s, asserted in ((239.9, 1), (0.1, 2)):
        shop.now += step_s
        await shop.provisioner.round()
        assert asserted == ground.asserted
    shop.chance = 1.0
    shop.now += 240.0
    await shop.provisioner.round()
    for step_s, asserted in ((359.9, 3), (0.1, 4)):
        shop.now += step_s
        await shop.provisioner.round()
        assert asserted == ground.asserted


@pytest.mark.origin("H16")
async def test_after_a_start_the_first_assertions_are_spread_over_the_interval(shop: Shop) -> None:
    grounds = [shop.ledger.stand_on(f"w{number}", f"pod:u{number}") for number in range(10)]
    chances = iter([number / 10 for number in range(10)])
    shop.again()
    shop.provisioner._clock = Clock(lambda: shop.now, lambda: next(chances, 0.5), lambda: "id")
    await shop.provisioner.round()
    at_once = sum(one.asserted for one in grounds)
    shop.now += 150.0
    await shop.provisioner.round()

    assert 1 == at_once
    assert 6 == sum(one.asserted >= 1 for one in grounds)


@pytest.mark.origin("C16")
async def test_an_assertion_that_failed_is_tried_again_next_time_and_costs_nothing(shop: Shop) -> None:
    ground = shop.ledger.place("w1", SPEC)
    await shop.provisioner.round()
    shop.api.fault = lambda asked: Fault(status=500) if asked.method == "PATCH" else None
    shop.now += 400.0
    await shop.provisioner.round()
    shop.api.fault = lambda asked: None
    shop.now += 400.0
    await shop.provisioner.round()

    assert ("running", 2) == (ground.phase, ground.asserted)


@pytest.mark.origin("C19")
async def test_a_released_body_is_deleted_and_told_gone_once_it_is(shop: Shop) -> None:
    ground = shop.ledger.place("w1", SPEC)
    await shop.provisioner.round()
    shop.api.after = lambda store: None
    ground.phase, ground.teardown = "teardown", True
    await shop.provisioner.round()
    assert "deletionTimestamp" in shop.api.store.objects[KEY]["metadata"]
    assert "teardown" == ground.phase
    shop.api.after = ended_at_once
    await shop.api.write(lambda store: None)
    await shop.provisioner.round()

    assert ("destroyed", {}) == (ground.phase, shop.api.store.objects)


@pytest.mark.origin("D52")
async def test_a_body_without_our_mark_is_never_deleted(shop: Shop) -> None:
    wish = {"metadata": {"name": KEY[2]}, "spec": {"containers": [{"name": "theirs"}]}}
    await shop.api.write(partial(Store.create, plural=PODS, namespace=NAMESPACE, wish=wish))
    ground = shop.ledger.place("w1", SPEC)
    ground.phase, ground.teardown = "teardown", True
    await shop.provisioner.round()

    assert KEY in shop.api.store.objects
    assert 1 == shop.provisioner.counts["not_ours"]


async def test_one_workspaces_trouble_never_keeps_the_others(shop: Shop) -> None:
    grounds = [shop.ledger.place(f"w{number}", SPEC) for number in range(AT_ONCE + 2)]
    shop.api.fault = lambda asked: Fault(status=500) if asked.name == "jackline-w0" else None
    await shop.provisioner.round()

    assert ["placing"] + ["running"] * (AT_ONCE + 1) == [one.phase for one in grounds]
    assert 1 == shop.provisioner.counts["steps_failed"]


async def test_a_lost_fence_ends_the_provisioner(shop: Shop) -> None:
    shop.ledger.place("w1", {"spec": {"hostNetwork": True}})
    shop.ledger.refusal = FenceLost(409, {"code": "fence_lost"})

    with pytest.raises(FenceLost):
        await shop.provisioner.run()


async def test_what_is_remembered_is_forgotten_with_the_workspace(shop: Shop) -> None:
    for number in range(5):
        shop.ledger.place(f"w{number}", SPEC)
    await shop.provisioner.round()
    shop.ledger.grounds.clear()
    shop.now += 30.0
    await shop.provisioner.round()
    memory = shop.provisioner._memory

    assert (set(), {}, {}, {}) == (memory.placed, memory.looked_at, memory.assert_at, memory.said)
