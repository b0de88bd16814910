"""From a template and a wish to a manifest: what may be asked for, and what is always ours."""

from typing import Any

import pytest

from watchers.kubernetes.shapes import ASSERTED_AT, MANAGED_BY, OURS, WORKSPACE_LABEL
from watchers.kubernetes.templates import DEFAULT_TEMPLATE, NAME_MAX_CHARS, BadWish, body_name, manifest

TEMPLATE: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"labels": {"team": "agents"}},
    "spec": {
        "serviceAccountName": "agents",
        "containers": [
            {"name": "main", "image": "base", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "proxy", "image": "proxy"},
        ],
    },
}


def made(wish: Any, template: Any = TEMPLATE, **options: Any) -> dict[str, Any]:
    """The manifest of the workspace w1."""
    return manifest("w1", wish, template, "noon", **options)


def test_a_wish_changes_a_container_by_its_name_and_leaves_the_others() -> None:
    wish = {"spec": {"containers": [{"name": "main", "image": "mine", "env": [{"name": "B", "value": "3"}]}]}}
    main, proxy = made(wish)["spec"]["containers"]

    assert ("mine", [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]) == (main["image"], main["env"])
    assert {"name": "proxy", "image": "proxy"} == proxy
    assert "agents" == made(wish)["spec"]["serviceAccountName"]


def test_neither_template_nor_wish_is_changed_by_the_making() -> None:
    before = repr(TEMPLATE)
    made({"spec": {"containers": [{"name": "more", "image": "x"}]}})["spec"]["containers"][0]["image"] = "changed"

    assert before == repr(TEMPLATE)


@pytest.mark.origin("D52")
def test_our_marks_come_last_and_cannot_be_asked_for() -> None:
    metadata = made({"metadata": {"labels": {"mine": "1"}}})["metadata"]

    assert {"team": "agents", "mine": "1", MANAGED_BY: OURS, WORKSPACE_LABEL: "w1"} == metadata["labels"]
    assert ("jackline-w1", "noon") == (metadata["name"], metadata["annotations"][ASSERTED_AT])
    for label in (MANAGED_BY, WORKSPACE_LABEL, "agents.x-k8s.io/pod-name"):
        with pytest.raises(BadWish, match="reserved"):
            made({"metadata": {"labels": {label: "theirs"}}}, any_spec=True)


@pytest.mark.parametrize(
    "wish",
    [
        {"spec": {"hostNetwork": True}},
        {"spec": {"serviceAccountName": "admin"}},
        {"spec": {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}},
        {"spec": {"containers": [{"name": "main", "securityContext": {"privileged": True}}]}},
        {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {}}}]}]}},
        {"spec": {"initContainers": [{"name": "first"}]}},
        {"metadata": {"ownerReferences": []}},
        {"metadata": {"name": "theirs"}},
        {"spec": {"containers": "main"}},
        {"kind": "Job"},
        ["a", "list"],
        "text",
    ],
)
def test_a_wish_for_more_than_is_allowed_is_refused_and_says_what_may_be(wish: Any) -> None:
    with pytest.raises(BadWish):
        made(wish)


def test_any_spec_lifts_the_bounds_of_a_wish() -> None:
    assert made({"spec": {"hostNetwork": True}}, any_spec=True)["spec"]["hostNetwork"]


def test_a_body_without_a_container_cannot_be_made() -> None:
    with pytest.raises(BadWish, match="container"):
        made({}, {"kind": "Pod", "spec": {}})


def test_no_wish_at_all_is_the_template() -> None:
    assert made(None)["spec"] == TEMPLATE["spec"]
    assert "main" == made({}, DEFAULT_TEMPLATE)["spec"]["containers"][0]["name"]


def test_a_sandbox_carries_the_pod_and_its_marks_inside() -> None:
    template = {**TEMPLATE, "sandbox": {"volumeClaimTemplates": [{"metadata": {"name": "files"}}]}}
    found = made({"kind": "Sandbox"}, template)

    assert ("Sandbox", "agents.x-k8s.io/v1beta1") == (found["kind"], found["apiVersion"])
    assert "w1" == found["spec"]["podTemplate"]["metadata"]["labels"][WORKSPACE_LABEL]
    assert TEMPLATE["spec"] == found["spec"]["podTemplate"]["spec"]
    assert "files" == found["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]


@pytest.mark.parametrize("workspace_id", ["01a228f6166d74e48b59c005564e4265", "Odd_One.2", "x" * 200, "-a-"])
def test_the_name_of_a_body_is_one_that_the_api_takes(workspace_id: str) -> None:
    name = body_name(workspace_id)

    assert len(name) <= NAME_MAX_CHARS
    assert name == name.lower()
    assert name.strip("-") == name
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
