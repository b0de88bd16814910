"""The whole way: a cluster, `jackline watch kubernetes` as a process, the real service, and what becomes of the run."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.client.serving import Service
from tests.watchers.cluster import SCOPE, Cluster
from tests.watchers.fake_apiserver import fake_apiserver
from tests.watchers.world import container, exited
from watchers.kubernetes.observer import ensure_run
from watchers.kubernetes.shapes import MANAGED_BY, WORKSPACE_LABEL

pytestmark = pytest.mark.system


@pytest.fixture
async def cluster(jackline_script: Path, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster and a service; nobody watches yet."""
    service = Service(jackline_script, tmp_path, {"JACKLINE_RECONNECT_S": "0.3", "JACKLINE_ASSERT_EVERY_S": "1"})
    await asyncio.to_thread(service.start)
    try:
        async with fake_apiserver() as api:
            cluster = Cluster(api, service)
            try:
                yield cluster
            finally:
                api.frozen.set()
                await cluster.close()
    finally:
        service.close()


@pytest.mark.origin("C1", "C5", "C6", "C8", "C10", "R13")
async def test_a_run_whose_pod_is_evicted_is_lost_and_says_so(cluster: Cluster) -> None:
    run_id, workspace_id = await cluster.stand("a")
    await cluster.observing(await cluster.watch("one"))
    await cluster.until_workspace(workspace_id, known=True)
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    await cluster.hands.patch("pods", "a", status, status=True)
    lost = await cluster.until_workspace(workspace_id, phase="lost")
    run = await cluster.client.run(run_id)

    assert ("Evicted", "The node was low on resource: memory.") == (lost["lost"]["reason"], lost["lost"]["message"])
    assert ("lost", "workspace_lost", "Evicted") == (run.state, run.reason, run.error["reason"])


@pytest.mark.origin("C9", "R14", "H14")
async def test_a_frozen_api_server_makes_workspaces_unknown_and_a_thaw_restores_them(cluster: Cluster) -> None:
    run_id, workspace_id = await cluster.stand("a")
    await cluster.observing(await cluster.watch("one"))
    await cluster.until(lambda: any(one.watches and one.plural == "pods" for one in cluster.api.asked), "it watches")
    cluster.api.frozen.clear()
    unknown = await cluster.fact(run_id, "workspace.continuity_unknown.v1")
    await cluster.until_workspace(workspace_id, known=False, phase="running")
    cluster.api.frozen.set()
    await cluster.until_workspace(workspace_id, known=True, phase="running")

    assert "watch_dropped" == unknown["cause"]
    assert "running" == (await cluster.client.run(run_id)).state


@pytest.mark.origin("C9", "C13", "C36", "K5")
async def test_a_killed_observer_leaves_unknowns_and_the_one_that_waited_takes_over(cluster: Cluster) -> None:
    run_id, workspace_id = await cluster.stand("a")
    gone_run, gone_workspace = await cluster.stand("b")
    first = await cluster.watch("one")
    await cluster.observing(first)
    second = await cluster.watch("two")
    await cluster.until(lambda: second.happened("registered"), "the second one waits")
    await cluster.until_workspace(workspace_id, known=True)
    assert [] == second.happened("observing")
    first.kill()
    await cluster.hands.delete("pods", "b", force=True)
    await cluster.observing(second)
    await cluster.until_workspace(workspace_id, known=True, phase="running")
    lost = await cluster.until_workspace(gone_workspace, phase="lost")

    assert second.happened("observing")[0]["fence"] > first.happened("observing")[0]["fence"]
    assert "observer_gone" == (await cluster.fact(run_id, "workspace.continuity_unknown.v1"))["cause"]
    assert "PodDeleted" == lost["lost"]["reason"]
    assert "lost" == (await cluster.client.run(gone_run)).state


@pytest.mark.origin("K5")
async def test_a_service_that_is_started_anew_is_told_the_whole_scope_again(cluster: Cluster) -> None:
    run_id, workspace_id = await cluster.stand("a")
    await cluster.observing(await cluster.watch("one"))
    await cluster.until_workspace(workspace_id, known=True)
    await asyncio.to_thread(cluster.service.kill)
    await asyncio.to_thread(cluster.service.start)
    await cluster.until_workspace(workspace_id, known=True, phase="running")

    assert "boot" == (await cluster.fact(run_id, "workspace.continuity_unknown.v1"))["cause"]


@pytest.mark.origin("C28")
async def test_a_watch_that_is_told_to_stop_hands_its_run_back(cluster: Cluster) -> None:
    process = await cluster.watch("one")
    await cluster.observing(process)
    code = await asyncio.to_thread(process.stop)
    runs = (await cluster.client.runs(queue="_observers")).items

    assert 0 == code
    assert [("queued", 0)] == [(run.state, run.failed_attempts) for run in runs]
    assert process.happened("left")


@pytest.mark.origin("C20", "C21", "R15")
async def test_a_harness_that_ran_out_of_memory_is_told_with_its_mark(cluster: Cluster) -> None:
    _, workspace_id = await cluster.stand("a")
    await cluster.observing(await cluster.watch("one"))
    await cluster.until_workspace(workspace_id, known=True)
    status = {"containerStatuses": container(1, last=exited(137, "OOMKilled"))}
    await cluster.hands.patch("pods", "a", status, status=True)
    shown = await cluster.until_workspace(workspace_id, incarnation=1)

    assert {"reason": "OOMKilled", "message": None, "exit_code": 137} == shown["harness"]
    assert "running" == shown["phase"]


@pytest.mark.origin("C12", "C14", "C19", "C30", "C31", "D47", "D52")
async def test_a_provisioned_body_is_made_attached_asserted_and_destroyed(cluster: Cluster) -> None:
    run_id, fence = await cluster.held()
    spec = {"spec": {"containers": [{"name": "main", "image": "harness:1"}]}}
    workspace_id = await cluster.place(run_id, fence, spec)
    await cluster.observing(await cluster.watch("one", "--provision"))
    name = f"jackline-{workspace_id}"
    await cluster.until(lambda: ("pods", "default", name) in cluster.api.store.objects, "the pod is made")
    await cluster.run_pod(name)
    shown = await cluster.until_workspace(workspace_id, phase="running")
    pod = await cluster.hands.find("pods", name)
    assert pod is not None
    await cluster.ask("POST", f"/v1/runs/{run_id}/cancel", {})
    await cluster.ask("POST", f"/v1/runs/{run_id}/close", {"fence": fence, "outcome": "failed", "retryable": False})
    await cluster.until(
        lambda: "deletionTimestamp" in cluster.api.store.objects[("pods", "default", name)]["metadata"],
        "the pod is deleted",
    )
    await cluster.hands.delete("pods", name, force=True)
    await cluster.until_workspace(workspace_id, phase="destroyed")

    assert f"pod:{pod['metadata']['uid']}" == shown["identity"]
    assert ("default", name) == (shown["details"]["namespace"], shown["details"]["pod"])
    assert "harness:1" == pod["spec"]["containers"][0]["image"]


async def test_a_key_that_is_bound_to_the_observer_is_enough_to_watch_and_provision(cluster: Cluster) -> None:
    """The run to observe under was submitted by somebody else, who may."""
    await ensure_run(cluster.client, SCOPE)
    made = await cluster.ask("POST", "/v1/keys", {"name": "watch", "role": "worker", "worker_ids": ["one"]})
    run_id, fence = await cluster.held()
    workspace_id = await cluster.place(run_id, fence, {"spec": {"containers": [{"name": "main", "image": "h"}]}})
    _, unlabelled = await cluster.stand("b")
    await cluster.hands.patch("pods", "b", {"metadata": {"labels": {MANAGED_BY: None, WORKSPACE_LABEL: None}}})
    await cluster.observing(await cluster.watch("one", "--provision", key=made["key"]))
    name = f"jackline-{workspace_id}"
    await cluster.until(lambda: ("pods", "default", name) in cluster.api.store.objects, "the pod is made")
    await cluster.run_pod(name)
    await cluster.until_workspace(workspace_id, phase="running", known=True)
    await cluster.until_workspace(unlabelled, phase="running", known=True)
    await cluster.hands.patch("pods", name, {"phase": "Failed", "reason": "Evicted"}, status=True)
    lost = await cluster.until_workspace(workspace_id, phase="lost")

    assert "Evicted" == lost["lost"]["reason"]
