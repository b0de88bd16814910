"""The OpenAPI document is valid, complete, and says what the routes do."""

from typing import Any

import pytest
from openapi_spec_validator import validate

from api.openapi import document
from api.roles import PUBLIC, TABLE
from journal.topics import TOPICS


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return document()


def test_the_document_is_valid_openapi_of_the_version_it_claims(spec: dict[str, Any]) -> None:
    validate(spec)

    assert spec["openapi"].startswith("3.1")


def test_every_route_is_an_operation_and_every_operation_a_route(spec: dict[str, Any]) -> None:
    operations = {f"{method.upper()} {path}" for path, item in spec["paths"].items() for method in item}

    assert {route for route in TABLE if not route.startswith("WS ")} == operations


def test_every_operation_says_what_it_is_for_and_that_it_may_be_refused(spec: dict[str, Any]) -> None:
    for route, operation in _operations(spec):
        assert operation["description"], route
        if TABLE[route] != PUBLIC:
            assert ["application/problem+json"] == list(operation["responses"]["default"]["content"]), route


def test_only_public_operations_need_no_key(spec: dict[str, Any]) -> None:
    assert [{"key": []}] == spec["security"]
    assert {route for route, operation in _operations(spec) if operation.get("security") == []} == {
        route for route, roles in TABLE.items() if roles == PUBLIC
    }


def test_every_command_takes_an_idempotency_key_and_every_read_a_position(spec: dict[str, Any]) -> None:
    reads = {"/v1/runs", "/v1/runs/{run_id}", "/v1/workspaces", "/v1/workspaces/{workspace_id}"} | {
        f"/v1/runs/{{run_id}}/{what}" for what in ("facts", "output", "effects", "why", "timeline")
    }
    reads |= {f"/v1/{what}" for what in ("workers", "leaders", "queues", "effects", "usage", "projections", "journal")}
    for route, operation in _operations(spec):
        method, _, path = route.partition(" ")
        names = {parameter["name"] for parameter in operation.get("parameters", ())}
        assert ("Idempotency-Key" in names) == (method != "GET"), route
        assert ("min_position" in names) == (method == "GET" and path in reads), route


def test_every_guarded_write_takes_its_fence_in_the_body_or_the_head_and_never_in_the_url(spec: dict[str, Any]) -> None:
    for route, operation in _operations(spec):
        names = {parameter["name"]: parameter["in"] for parameter in operation.get("parameters", ())}
        fenced = "fence" in _body(spec, operation)
        assert ("Jackline-Fence" in names) == fenced, route
        assert "header" == names.get("Jackline-Fence", "header")
        assert "fence" not in names


@pytest.mark.origin("D58")
def test_facts_are_a_union_that_is_told_apart_by_topic_and_knows_every_topic(spec: dict[str, Any]) -> None:
    facts = spec["components"]["schemas"]["Facts"]["properties"]["facts"]["items"]

    assert "topic" == facts["discriminator"]["propertyName"]
    assert set(TOPICS) == set(facts["discriminator"]["mapping"])


def test_a_body_is_closed_and_an_answer_is_too(spec: dict[str, Any]) -> None:
    schemas = spec["components"]["schemas"]

    for name in ("Submit", "Policy", "Close", "Heartbeat", "LeaseRef", "Run", "Claim", "Renewal", "Worker", "Key"):
        assert schemas[name]["additionalProperties"] is False, name


def _operations(spec: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, item in spec["paths"].items()
        for method, operation in item.items()
    ]


def _body(spec: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    """The fields of an operation's body."""
    if "requestBody" not in operation:
        return {}
    reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    return dict(spec["components"]["schemas"][reference.rpartition("/")[2]].get("properties", {}))
