"""The table of verdicts: what each change of a pod means, row by row, without any cluster."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline.workspaces.contract import LOSSES
from watchers.kubernetes import verdicts
from watchers.kubernetes.shapes import Pod, Sandbox
from watchers.kubernetes.verdicts import MESSAGE_MAX_CHARS, REASON_MAX_CHARS, Around

NOWHERE = Around()
REASONS = {"PodDeleted", "Evicted", "Terminated", "PodFailed", "PodSucceeded", "NodeLost"}


def pod(**status: Any) -> Pod:
    """A pod on a node; `deleting` and `node` are about its metadata and spec."""
    deleting, node = status.pop("deleting", None), status.pop("node", "n1")
    document = {
        "metadata": {"name": "a", "uid": "u1", "resourceVersion": "7", "deletionTimestamp": deleting},
        "spec": {"nodeName": node, "containers": [{"name": "main"}, {"name": "side"}]},
        "status": {"phase": "Running", **status},
    }
    return msgspec.convert({**document, "metadata": _without_none(document["metadata"])}, type=Pod)


def _without_none(value: Any) -> Any:
    return {name: inner for name, inner in value.items() if inner is not None}


def main(restarts: int = 0, **more: Any) -> dict[str, Any]:
    """The containers of a pod: the main one, and one beside it."""
    status = {"name": "main", "restartCount": restarts, "containerID": f"c{restarts}", **more}
    return {"containerStatuses": [{"name": "side", "restartCount": 9, "containerID": "s9"}, status]}


def disruption(reason: str) -> dict[str, Any]:
    """The condition of a pod that somebody takes away."""
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "because"}]}


@pytest.mark.origin("C10")
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Failed", "reason": "Preempting"}, "Evicted"),
        ({"phase": "Failed", "reason": "NodeLost"}, "NodeLost"),
        ({"phase": "Failed", "reason": "Terminated"}, "Terminated"),
        ({"phase": "Succeeded", "reason": "Terminated"}, "Terminated"),
        ({"phase": "Failed", "reason": "NodeShutdown"}, "Terminated"),
        ({"phase": "Failed", **disruption("EvictionByEvictionAPI")}, "Evicted"),
        ({"phase": "Failed", **disruption("DeletionByTaintManager")}, "NodeLost"),
        ({"phase": "Failed", **disruption("TerminationByKubelet")}, "Terminated"),
        ({"phase": "Failed", **disruption("SomethingNew")}, "PodFailed"),
        ({"phase": "Failed", "deleting": "2030-01-01T00:00:30Z"}, "PodDeleted"),
        ({"phase": "Succeeded", "deleting": "2030-01-01T00:00:30Z"}, "PodDeleted"),
        ({"phase": "Failed", "reason": "Evicted", "deleting": "2030-01-01T00:00:30Z"}, "Evicted"),
        ({"phase": "Failed"}, "PodFailed"),
        ({"phase": "Succeeded"}, "PodSucceeded"),
    ],
)
def test_a_pod_that_ends_in_place_ends_for_a_reason_of_the_closed_list(status: dict[str, Any], reason: str) -> None:
    body = verdicts.seen("w", pod(), NOWHERE).body
    (told,) = verdicts.changed(body, pod(**status), NOWHERE).told

    assert ("ended", reason, "pod:u1", "7") == (told.kind, told.reason, told.identity, told.version)


@pytest.mark.origin("C10")
@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ({}, "PodDeleted"),
        ({"deleting": "2030-01-01T00:00:30Z"}, "PodDeleted"),
        (disruption("EvictionByEvictionAPI"), "Evicted"),
        (disruption("PreemptionByScheduler"), "Evicted"),
        (disruption("DeletionByTaintManager"), "NodeLost"),
        (disruption("DeletionByPodGC"), "NodeLost"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Succeeded"}, "PodSucceeded"),
    ],
)
def test_a_pod_that_is_deleted_is_gone_with_the_last_reason_seen(last: dict[str, Any], reason: str) -> None:
    body = verdicts.seen("w", pod(), NOWHERE).body
    told = verdicts.deleted(body, pod(**last), NOWHERE, "9")

    assert ("gone", reason, "9") == (told.kind, told.reason, told.version)


def test_an_end_is_told_once() -> None:
    body = verdicts.changed(verdicts.seen("w", pod(), NOWHERE).body, pod(phase="Failed"), NOWHERE).body

    assert () == verdicts.changed(body, pod(phase="Failed", message="again"), NOWHERE).told


def test_a_pod_that_runs_again_after_its_end_is_impossible_and_says_nothing() -> None:
    body = verdicts.changed(verdicts.seen("w", pod(), NOWHERE).body, pod(phase="Failed"), NOWHERE).body
    judged = verdicts.changed(body, pod(), NOWHERE)

    assert ((), True, True) == (judged.told, judged.impossible, judged.body.over)


def test_the_main_container_is_the_one_that_was_asked_for_first() -> None:
    body = verdicts.seen("w", pod(**main()), NOWHERE).body

    assert 0 == body.incarnation


@pytest.mark.origin("C20")
@pytest.mark.parametrize(
    ("before", "after", "incarnations"),
    [
        (main(0), main(1), [1]),
        (main(0), main(3), [3]),
        (main(0), main(0), []),
        (main(0), main(0, containerID="other"), [1]),
        (main(2), main(1, containerID="other"), [3]),
        (main(1), main(0, containerID=None), []),
        ({}, main(2), [2]),
        (main(2), {}, []),
    ],
)
def test_the_incarnation_rises_with_every_start_and_never_falls(
    before: dict[str, Any], after: dict[str, Any], incarnations: list[int]
) -> None:
    body = verdicts.seen("w", pod(**before), NOWHERE).body
    told = verdicts.changed(body, pod(**after), NOWHERE).told

    assert incarnations == [one.incarnation for one in told if one.kind == "harness_restarted"]


def test_another_address_alone_is_a_restart_where_no_container_has_a_name() -> None:
    body = verdicts.seen("w", pod(podIP="10.0.0.1", **main(containerID=None)), NOWHERE).body
    told = verdicts.changed(body, pod(podIP="10.0.0.2", **main(containerID=None)), NOWHERE).told

    assert ["harness_restarted"] == [one.kind for one in told]


@pytest.mark.origin("C9", "R14")
def test_a_silent_node_is_told_once_and_ends_with_present_and_synced() -> None:
    unready = pod(conditions=[{"type": "Ready", "status": "False"}])
    body = verdicts.seen("w", pod(), NOWHERE).body
    silent = verdicts.changed(body, unready, Around(unreachable=True))
    again = verdicts.changed(silent.body, unready, Around(unreachable=True))
    heard = verdicts.changed(again.body, pod(), NOWHERE)

    assert (["watch_dropped"], []) == ([one.kind for one in silent.told], [one.kind for one in again.told])
    assert ["present", "synced"] == [one.kind for one in heard.told]


def test_a_ready_pod_on_a_silent_node_is_present() -> None:
    told = verdicts.seen("w", pod(conditions=[{"type": "Ready", "status": "True"}]), Around(unreachable=True)).told

    assert ["present"] == [one.kind for one in told]


def test_the_phase_unknown_is_not_known() -> None:
    body = verdicts.seen("w", pod(), NOWHERE).body

    assert ["watch_dropped"] == [one.kind for one in verdicts.changed(body, pod(phase="Unknown"), NOWHERE).told]


def test_a_pod_without_a_node_is_told_only_when_it_ends() -> None:
    judged = verdicts.seen("w", pod(node=None, phase="Pending"), NOWHERE)

    assert ((), False) == (judged.told, judged.body.tellable)
    assert ["ended"] == [
        one.kind for one in verdicts.changed(judged.body, pod(node=None, phase="Failed"), NOWHERE).told
    ]


def test_a_suspension_is_named_only_while_the_sandbox_is_meant_to_be_suspended() -> None:
    lingering = {"conditions": [{"type": "Suspended", "status": "True", "reason": "PodTerminated"}]}
    body = verdicts.seen("w", pod(), NOWHERE).body
    for mode, says in (("Suspended", True), ("Running", False)):
        sandbox = msgspec.convert(
            {"metadata": {"name": "box"}, "spec": {"operatingMode": mode}, "status": lingering}, type=Sandbox
        )
        told = verdicts.deleted(body, pod(), Around(sandbox=sandbox), "9")

        assert says == ("box was suspended (PodTerminated)" in (told.message or ""))


@pytest.mark.parametrize("more", [0, 1])
def test_reasons_and_messages_are_cut_at_what_the_service_takes(more: int) -> None:
    waiting = {"reason": "R" * (REASON_MAX_CHARS + more), "message": "m" * (MESSAGE_MAX_CHARS + more)}
    (told,) = verdicts.seen("w", pod(**main(state={"waiting": waiting})), NOWHERE).told

    assert (REASON_MAX_CHARS, MESSAGE_MAX_CHARS) == (len(told.reason or ""), len(told.message or ""))
    assert ("…" if more else "m") == (told.message or "")[-1]


PHASES = st.sampled_from(["Pending", "Running", "Failed", "Succeeded", "Unknown"])
STATES = st.fixed_dictionaries(
    {"phase": PHASES},
    optional={
        "reason": st.sampled_from(["Evicted", "NodeLost", "Odd"]),
        "deleting": st.just("2030-01-01T00:00:30Z"),
        "node": st.none(),
        "conditions": st.sampled_from(
            [[{"type": "Ready", "status": "True"}], disruption("DeletionByPodGC")["conditions"]]
        ),
        "containerStatuses": st.integers(0, 3).map(lambda count: main(count)["containerStatuses"]),
    },
)


@pytest.mark.origin("C5", "C11")
@given(st.lists(st.tuples(STATES, st.booleans()), min_size=1, max_size=8))
def test_whatever_a_pod_goes_through_it_ends_once_and_its_incarnation_only_rises(
    story: list[tuple[dict[str, Any], bool]],
) -> None:
    (first, silent), *rest = story
    judged = verdicts.seen("w", pod(**dict(first)), Around(silent))
    told = list(judged.told)
    for status, is_silent in rest:
        judged = verdicts.changed(judged.body, pod(**dict(status)), Around(is_silent))
        told += judged.told
    ends = [one for one in told if one.kind in LOSSES]
    marks = [one.incarnation or 0 for one in told if one.kind == "harness_restarted"]

    assert len(ends) == any(status["phase"] in ("Failed", "Succeeded") for status, _ in story)
    assert {one.reason for one in ends} <= REASONS
    assert marks == sorted(marks)
    assert not ends or told[-1] is ends[0]
