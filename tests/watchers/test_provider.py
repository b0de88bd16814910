"""Kubernetes as a provider of workspaces: the contract that all keep, and what is its own."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from jackline.workspaces.contract import MEMORY_LIMIT, Attached, NotYet, PlaceFailed, Provider, WorkspaceRef
from tests.contract.providing import Ground, ProviderContract, attached_of, placed
from tests.watchers.fake_apiserver import FakeApiServer, Fault, fake_apiserver
from tests.watchers.fake_store import PODS, Object, Store
from tests.watchers.kubelet import unwilling, willing
from tests.watchers.world import BOUNDS, NAMESPACE, container, exited
from watchers.kubernetes.credentials import Access, Nobody
from watchers.kubernetes.provider import KubernetesProvider, Making
from watchers.kubernetes.server import ApiServer
from watchers.kubernetes.shapes import ASSERTED_AT, MANAGED_BY, OURS, WORKSPACE_LABEL

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SPEC: Object = {"spec": {"containers": [{"name": "main", "image": "harness:1"}]}}


class PodGround:
    """Pods of a fake cluster."""

    can_be_blinded = True

    def __init__(self, api: FakeApiServer, spec: Any = SPEC) -> None:
        self.api = api
        self.server = ApiServer(Access(api.url, False, Nobody()), BOUNDS)
        self.provider: Provider = self.again()
        self._spec = spec

    def key(self, ref: WorkspaceRef) -> tuple[str, str, str]:
        return (PODS, NAMESPACE, f"jackline-{ref.workspace_id}")

    def spec(self) -> Any:
        return self._spec

    def impossible(self) -> Any:
        return {"spec": {"hostNetwork": True}}

    def again(self) -> KubernetesProvider:
        return KubernetesProvider(self.server, Making(NAMESPACE), lambda: NOON)

    async def destroy(self, ref: WorkspaceRef) -> None:
        await self.api.write(lambda store: store.remove(self.key(ref)))

    async def replace(self, ref: WorkspaceRef) -> WorkspaceRef:
        await self.destroy(ref)
        await self.provider.place(ref.workspace_id, self.spec())
        return ref

    async def foreign(self, workspace_id: str) -> WorkspaceRef:
        ref = WorkspaceRef(workspace_id)
        wish = {"metadata": {"name": self.key(ref)[2]}, "spec": {"containers": [{"name": "theirs"}]}}
        made = await self.api.write(lambda store: store.create(PODS, NAMESPACE, wish))
        return WorkspaceRef(workspace_id, f"pod:{made['metadata']['uid']}")

    async def exists(self, ref: WorkspaceRef) -> bool:
        return self.key(ref) in self.api.store.objects

    async def blind(self) -> None:
        self.api.fault = lambda asked: Fault(status=503)

    async def sight(self) -> None:
        self.api.fault = lambda asked: None

    async def pod(self, ref: WorkspaceRef) -> Object:
        return self.api.store.objects[self.key(ref)]


@pytest.fixture
async def ground() -> AsyncIterator[PodGround]:
    """A cluster that runs whatever it is given."""
    async with fake_apiserver() as api:
        api.after = willing
        ground = PodGround(api)
        yield ground
        await ground.server.close()


@pytest.mark.origin("C31", "R12", "D52")
class TestPods(ProviderContract):
    @pytest.fixture
    def ground(self, ground: PodGround) -> Ground:
        return ground


async def test_a_body_carries_our_marks_and_the_hour_of_its_assertion(ground: PodGround) -> None:
    ref = await placed(ground)
    meta = (await ground.pod(ref))["metadata"]

    assert {MANAGED_BY: OURS, WORKSPACE_LABEL: "w1"} == meta["labels"]
    assert NOON.isoformat() == meta["annotations"][ASSERTED_AT]


@pytest.mark.origin("C12")
async def test_an_assertion_stamps_the_body(ground: PodGround) -> None:
    ref = await placed(ground)
    later = KubernetesProvider(ground.server, Making(NAMESPACE), lambda: NOON.replace(hour=13))
    await later.assert_(ref)  # noqa: PT009 - an operation of the contract

    assert "2030-01-01T13:00:00+00:00" == (await ground.pod(ref))["metadata"]["annotations"][ASSERTED_AT]


@pytest.mark.origin("C30", "D49")
async def test_a_body_that_no_node_has_room_for_waits_for_one_and_says_why(ground: PodGround) -> None:
    ground.api.after = unwilling
    await ground.provider.place("w1", SPEC)
    waiting = await ground.provider.attach(WorkspaceRef("w1", spec=SPEC))

    assert NotYet("waiting", "node", "0/3 nodes are available") == waiting


@pytest.mark.origin("C30", "D49")
async def test_a_body_beyond_the_quota_waits_for_it_and_is_made_when_there_is_some(ground: PodGround) -> None:
    ground.api.store.quota = 0
    await ground.provider.place("w1", SPEC)
    waiting = await ground.provider.attach(WorkspaceRef("w1", spec=SPEC))
    ground.api.store.quota = None
    made = await attached_of(ground.provider, WorkspaceRef("w1", spec=SPEC))

    assert isinstance(waiting, NotYet)
    assert ("waiting", "quota", True) == (waiting.phase, waiting.on, "exceeded quota" in str(waiting.message))
    assert made.identity.startswith("pod:")


async def test_a_body_that_pulls_its_image_exists_under_its_identity(ground: PodGround) -> None:
    ground.api.after = lambda store: None
    await ground.provider.place("w1", SPEC)
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    status = {"phase": "Pending", "containerStatuses": container(waiting=waiting)}
    patch = {"spec": {"nodeName": "n1"}, "status": status}
    await ground.api.write(lambda store: store.patch(ground.key(WorkspaceRef("w1")), patch))
    found = await ground.provider.attach(WorkspaceRef("w1", spec=SPEC))

    assert isinstance(found, NotYet)
    assert ("attaching", "no such image", True) == (found.phase, found.message, str(found.identity).startswith("pod:"))


async def test_a_template_that_the_api_refuses_is_a_failure_and_not_a_wait(ground: PodGround) -> None:
    provider = KubernetesProvider(ground.server, Making(NAMESPACE, {"spec": {}}), lambda: NOON)
    with pytest.raises(PlaceFailed, match="container"):
        await provider.place("w1", {})


@pytest.mark.origin("D52")
async def test_a_pod_that_stands_in_the_way_without_our_mark_is_not_taken_over(ground: PodGround) -> None:
    await ground.foreign("w1")
    with pytest.raises(PlaceFailed, match="not ours"):
        await ground.provider.place("w1", SPEC)


@pytest.mark.origin("C3", "C6", "R12")
async def test_a_body_that_was_recorded_is_not_given_a_second_one(ground: PodGround) -> None:
    ref = await placed(ground)
    await ground.replace(ref)

    with pytest.raises(PlaceFailed, match="another pod"):
        await ground.provider.attach(ref)


@pytest.mark.origin("C6")
async def test_a_recorded_body_that_is_gone_is_not_made_again(ground: PodGround) -> None:
    ref = await placed(ground)
    await ground.destroy(ref)

    with pytest.raises(PlaceFailed) as raised:
        await ground.provider.attach(ref)

    assert "PodDeleted" == raised.value.reason
    assert not await ground.exists(ref)


async def test_a_provider_killed_after_the_making_finds_what_it_made(ground: PodGround) -> None:
    await ground.provider.place("w1", SPEC)
    found = await ground.again().attach(WorkspaceRef("w1", spec=SPEC))

    assert isinstance(found, Attached)
    assert 1 == len(ground.api.store.objects)


@pytest.mark.origin("C21")
async def test_an_end_by_memory_is_called_so_and_another_is_not(ground: PodGround) -> None:
    ref = await placed(ground)
    for reason, fault in (("OOMKilled", MEMORY_LIMIT), ("Error", None)):
        status = {"containerStatuses": container(1, last=exited(137, reason))}
        await ground.api.write(partial(Store.patch, key=ground.key(ref), patch={"status": status}))

        assert fault == await ground.provider.memory_fault(ref)


async def test_a_torn_down_body_is_deleted_by_its_uid(ground: PodGround) -> None:
    ref = await placed(ground)
    await ground.provider.teardown(ref)
    deleted = next(one for one in ground.api.asked if one.method == "DELETE")

    assert f"pod:{deleted.body['preconditions']['uid']}" == ref.identity


async def test_another_pod_under_the_name_of_a_lost_body_is_not_deleted_for_it(ground: PodGround) -> None:
    ref = await placed(ground)
    await ground.replace(ref)

    assert await ground.provider.teardown(ref)
    assert await ground.exists(ref)


class TestSandboxes(ProviderContract):
    """Sandboxes whose pods come from a warm pool, and carry no mark of ours."""

    @pytest.fixture
    def ground(self, ground: PodGround) -> Ground:
        return SandboxGround(ground.api, {"kind": "Sandbox", **SPEC})


class SandboxGround(PodGround):
    """Sandboxes of a fake cluster."""

    def key(self, ref: WorkspaceRef) -> tuple[str, str, str]:
        return ("sandboxes", NAMESPACE, f"jackline-{ref.workspace_id}")

    def impossible(self) -> Any:
        return {"kind": "Sandbox", "spec": {"hostNetwork": True}}

    async def foreign(self, workspace_id: str) -> WorkspaceRef:
        ref = WorkspaceRef(workspace_id, spec=self.spec())
        pod = {"podTemplate": {"spec": {"containers": [{"name": "theirs"}]}}}
        wish = {"metadata": {"name": self.key(ref)[2]}, "spec": pod}
        await self.api.write(lambda store: store.create("sandboxes", NAMESPACE, wish))
        return ref


async def test_the_details_of_a_sandbox_name_it_and_the_claims_its_files_are_on(ground: PodGround) -> None:
    claim = {"metadata": {"name": "files"}}
    made = await ground.api.write(lambda store: store.create("persistentvolumeclaims", NAMESPACE, claim))
    template = {
        "kind": "Sandbox",
        "spec": {"volumes": [{"name": "f", "persistentVolumeClaim": {"claimName": "files"}}]},
    }
    provider = KubernetesProvider(ground.server, Making(NAMESPACE, template), lambda: NOON)
    await provider.place("w1", SPEC)
    found = await attached_of(provider, WorkspaceRef("w1", spec=SPEC))
    sandbox = ground.api.store.objects[("sandboxes", NAMESPACE, "jackline-w1")]

    assert made["metadata"]["uid"] == found.details["pvc/files"]
    assert ("jackline-w1", sandbox["metadata"]["uid"]) == (found.details["sandbox"], found.details["sandbox_uid"])
    assert "warm-jackline-w1" == found.details["pod"]
    assert f"pod:{found.details['uid']}" == found.identity
