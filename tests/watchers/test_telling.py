"""What is told, in which order, and in which pieces."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline.clock import SYSTEM
from jackline.workspaces.contract import LOSSES, Observation
from tests.watchers.ledger import Ledger
from watchers.kubernetes.outbox import Outbox
from watchers.kubernetes.reports import BATCH_MAX, Batch, known
from watchers.kubernetes.shapes import MANAGED_BY, OURS, WORKSPACE_LABEL, Meta, Pod, PodSpec, PodStatus
from watchers.kubernetes.teller import Teller
from watchers.kubernetes.view import Watched


class Nowhere:
    """A cluster that answers nothing."""

    listed_at = 0.0

    async def find(self, namespace: str, name: str) -> Pod | None:
        """Nobody."""
        return None

    async def adopt(self, pod: Pod) -> None:
        """Nothing."""


def running(number: int) -> Pod:
    """A pod on a node, the body of a workspace."""
    labels = {MANAGED_BY: OURS, WORKSPACE_LABEL: f"w{number}"}
    meta = Meta(f"p{number}", "default", f"u{number}", str(number), labels=labels)
    return Pod(meta, PodSpec("n1"), PodStatus("Running"))


def test_what_is_newer_replaces_what_was_not_told_yet() -> None:
    outbox = Outbox()
    outbox.put("w", Observation("present", message="old"), Observation("harness_restarted", incarnation=1))
    outbox.put("w", Observation("present", message="new"), Observation("harness_restarted", incarnation=3))
    outbox.put("w", Observation("watch_dropped"), Observation("synced"))
    told = [(one.kind, one.message or one.incarnation) for _, one in outbox.take(10)]

    assert [("present", "new"), ("harness_restarted", 3), ("synced", None)] == told
    assert 0 == len(outbox)


@pytest.mark.origin("C11")
def test_an_end_is_kept_as_it_was_first_told() -> None:
    outbox = Outbox()
    outbox.put("w", Observation("ended", reason="Evicted"))
    outbox.put("w", Observation("ended", reason="PodFailed"), Observation("gone", reason="PodDeleted"))

    assert ["Evicted", "PodDeleted"] == [one.reason for _, one in outbox.take(10)]


def test_the_longest_waiting_are_told_first_and_those_of_one_workspace_together() -> None:
    outbox = Outbox()
    for name in ("a", "b", "c"):
        outbox.put(name, Observation("present"), Observation("synced"))

    assert ["a", "a"] == [name for name, _ in outbox.take(3)]
    assert ["b", "b", "c", "c"] == [name for name, _ in outbox.take(4)]


KINDS = st.sampled_from(["present", "gone", "ended", "harness_restarted", "watch_dropped", "synced"])


@given(st.lists(st.tuples(st.sampled_from("abc"), KINDS, st.integers(0, 5)), max_size=60), st.integers(1, 7))
def test_the_outbox_is_bounded_by_bodies_and_loses_no_end(story: list[tuple[str, Any, int]], most: int) -> None:
    outbox = Outbox()
    for name, kind, incarnation in story:
        outbox.put(name, Observation(kind, incarnation=incarnation))
    told: list[tuple[str, Observation]] = []
    while taken := outbox.take(most):
        assert len(taken) <= max(most, 5)
        told += taken

    assert len(told) <= 5 * 3
    assert {(name, kind) for name, kind, _ in story if kind in LOSSES} == {
        (name, one.kind) for name, one in told if one.kind in LOSSES
    }


@pytest.mark.parametrize(("bodies", "sizes"), [(0, [0]), (BATCH_MAX, [BATCH_MAX]), (BATCH_MAX + 1, [BATCH_MAX, 1])])
async def test_a_scope_is_stated_in_parts_of_what_one_batch_holds(bodies: int, sizes: list[int]) -> None:
    ledger = Ledger()
    teller = Teller(ledger, Nowhere(), SYSTEM)
    pods = Watched(teller.view, teller.view.pod, teller.view.pod_gone)
    for number in range(bodies):
        await pods.seen(running(number))
    await pods.complete()
    await teller._tell_all()
    parts = [batch for batch in ledger.batches if batch.part is not None]

    assert sizes == [len(batch.seen) for batch in parts]
    assert {ledger.as_of} == {batch.as_of for batch in parts}
    assert [(index, index == len(sizes) - 1) for index in range(len(sizes))] == [
        (batch.part.index, batch.part.last) for batch in parts if batch.part is not None
    ]


async def test_a_scope_that_goes_out_of_sight_while_it_is_stated_is_not_stated_whole() -> None:
    class Blinding(Ledger):
        async def tell(self, batch: Batch) -> Any:
            if batch.part is not None:
                await pods.blind("gone dark")
            return await super().tell(batch)

    ledger = Blinding()
    teller = Teller(ledger, Nowhere(), SYSTEM)
    pods = Watched(teller.view, teller.view.pod, teller.view.pod_gone)
    for number in range(BATCH_MAX + 1):
        await pods.seen(running(number))
    await pods.complete()
    await teller._tell_all()
    await teller._tell_all()

    assert 0 == ledger.synced
    assert {"watch_dropped"} == {one.kind for batch in ledger.batches[-2:] for _, one in batch.seen}


def test_a_workspace_is_read_from_what_the_service_shows() -> None:
    shown = {
        "workspace_id": "w", "phase": "placing", "identity": None, "incarnation": 0, "details": {},
        "spec": {"kind": "Pod"},
        "teardown": False, "to_assert": True, "waiting": {"on": "node", "message": "full", "since": "…"},
    }  # fmt: skip
    found = known(shown)

    assert ("w", "placing", "node: full", True) == (found.workspace_id, found.phase, found.waiting, found.to_assert)
