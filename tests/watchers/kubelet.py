"""What kubelets, schedulers and the sandbox controller do, as far as a provider of bodies depends on them."""

from typing import Any

from tests.watchers.fake_store import FORCED_AT, PODS, SANDBOXES, Object, Store, merge
from tests.watchers.world import NAMESPACE, container, ready
from watchers.kubernetes.shapes import SANDBOX_POD_NAME

RUNNING: Object = {"phase": "Running", "conditions": ready(), "containerStatuses": container()}


def willing(store: Store) -> None:
    """Schedule and run every pod, end every pod that is to be deleted, and give every sandbox its pod."""
    for key, found in list(store.objects.items()):
        if key not in store.objects:
            continue
        if found["metadata"].get("deletionTimestamp"):
            store.remove(key)
        elif key[0] == PODS and found["status"]["phase"] == "Pending":
            store.patch(key, {"spec": {"nodeName": "n1"}, "status": RUNNING})
        elif key[0] == SANDBOXES and SANDBOX_POD_NAME not in (found["metadata"].get("annotations") or {}):
            _give_pod(store, found)


def _give_pod(store: Store, sandbox: Object) -> None:
    """A pod that was warm already, and is controlled by the sandbox from now on."""
    name = f"warm-{sandbox['metadata']['name']}"
    owner = {
        "kind": "Sandbox",
        "uid": sandbox["metadata"]["uid"],
        "name": sandbox["metadata"]["name"],
        "controller": True,
    }
    wish: dict[str, Any] = {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": merge(sandbox["spec"]["podTemplate"]["spec"], {"nodeName": "n1"}),
        "status": RUNNING,
    }
    store.create(PODS, NAMESPACE, wish)
    store.patch(
        (SANDBOXES, NAMESPACE, sandbox["metadata"]["name"]), {"metadata": {"annotations": {SANDBOX_POD_NAME: name}}}
    )


def unwilling(store: Store) -> None:
    """No node has room."""
    lacking = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available",
    }
    for key, found in list(store.objects.items()):
        if key[0] == PODS and not found["status"].get("conditions"):
            store.patch(key, {"status": {"conditions": [lacking]}})


def ended_at_once(store: Store) -> None:
    """Deleted objects are gone; nothing else happens."""
    for key, found in list(store.objects.items()):
        if key in store.objects and found["metadata"].get("deletionTimestamp") not in (None, FORCED_AT):
            store.remove(key)
