"""The client's documents about workspaces and turns, held to the service's own description of its interface."""

import dataclasses
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from jackline import errors
from jackline._async.turning import TurnNotice, TurnState
from jackline.worker.standing import Kind as HeldKind
from jackline.workspaces import contract, models

DOCUMENTS: dict[str, Any] = {
    "Workspace": models.Workspace,
    "WorkspacePage": models.WorkspacePage,
    "Placed": models.Placed,
    "Asserted": models.Asserted,
    "Observed": models.Observed,
    "Refused": models.RefusedObservation,
    "TurnShown": models.TurnInfo,
    "Lost": models.WorkspaceLoss,
    "Fault": models.WorkspaceFault,
    "Waiting": models.WorkspaceWaiting,
    "Harness": models.Harness,
}
REFUSALS = (
    "workspace_unknown", "workspace_over", "wrong_phase", "identity_changed", "incarnation_backwards",
    "turn_unknown", "turn_over",
)  # fmt: skip


@pytest.fixture(scope="module")
def schemas(checkout: Path) -> dict[str, Any]:
    described = json.loads((checkout / "docs" / "openapi.json").read_text())
    found: dict[str, Any] = described["components"]["schemas"]
    return found


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_the_client_knows_every_member_of_the_document_and_makes_none_up(schemas: dict[str, Any], name: str) -> None:
    known = {field.name for field in dataclasses.fields(DOCUMENTS[name])}

    assert set(schemas[name]["properties"]) == known


def test_a_workspace_of_a_run_is_told_in_members_that_the_client_knows(schemas: dict[str, Any]) -> None:
    known = {field.name for field in dataclasses.fields(models.Workspace)}

    assert set(schemas["Ground"]["properties"]) <= known


def test_an_observation_says_what_the_service_understands(schemas: dict[str, Any]) -> None:
    seen = schemas["Seen"]["properties"]

    assert set(seen) == {field.name for field in dataclasses.fields(contract.Observation)}
    assert set(seen["kind"]["enum"]) == set(get_args(contract.Kind))


def test_what_a_turn_may_do_and_be_noticed_for_is_what_the_service_understands(schemas: dict[str, Any]) -> None:
    assert set(schemas["MoveTurn"]["properties"]["state"]["enum"]) == set(get_args(TurnState))
    assert set(schemas["NoticeTurn"]["properties"]["kind"]["enum"]) == set(get_args(TurnNotice))


def test_a_workspace_may_be_placed_for_every_provider_that_the_service_knows(schemas: dict[str, Any]) -> None:
    providers = set(schemas["Place"]["properties"]["provider"]["enum"])

    assert providers == set(get_args(models.ProviderName))
    assert set(get_args(HeldKind)) < providers


@pytest.mark.parametrize("code", REFUSALS)
def test_every_refusal_about_workspaces_and_turns_has_a_class_of_its_own(checkout: Path, code: str) -> None:
    told = errors.problem(409, {"code": code})

    assert type(told) is not errors.Problem
    assert f"`{code}`" in (checkout / "docs" / "refusals.md").read_text()
