"""The interface against its own document: nothing that can be asked fails, and every answer is as it says."""

import copy
from pathlib import Path

import pytest

from tests.attack.fuzzing import fuzz, linked, operations_of
from tests.system.conftest import Serving
from tests.system.serving import Service

pytestmark = pytest.mark.system

EXAMPLES = 20
"""Random cases for each operation; those at and beyond every bound come on top. The soak tries 500."""
CASES_MIN = 3_000
LINKS_MIN = 1
MANY = 1_000_000


@pytest.fixture
def open_service(make_service: Serving) -> Service:
    """A service that never tells anybody to wait before showing another wrong key."""
    return make_service(key_failures=MANY, retry_continuation_s=0).start()


def test_everything_that_the_document_allows_and_forbids_is_answered_as_it_says(
    open_service: Service, tmp_path: Path, seed: int
) -> None:
    document = open_service.caller().get("/v1/openapi.json").ok()

    found = fuzz(open_service, document, tmp_path / "fuzz", seed, EXAMPLES)

    assert 0 == found.code, found.said
    assert len(operations_of(document)) - 1 == found.operations
    assert CASES_MIN < found.cases
    assert LINKS_MIN <= found.links
    assert "ok" == open_service.caller().get("/healthz").ok()["status"]


def test_an_answer_that_is_not_as_the_document_says_is_found(open_service: Service, tmp_path: Path) -> None:
    document = copy.deepcopy(open_service.caller().get("/v1/openapi.json").ok())
    document["paths"] = {path: document["paths"][path] for path in ("/v1/whoami", "/v1/health/ack")}
    document["components"]["schemas"]["Whoami"]["required"].append("shoe_size")
    document["components"]["schemas"]["Nothing"]["properties"] = {"shoe_size": {"type": "integer"}}
    document["components"]["schemas"]["Nothing"]["required"] = ["shoe_size"]

    found = fuzz(open_service, document, tmp_path / "fuzz", 1, 3)

    assert 1 == found.code
    assert "shoe_size" in found.said
    assert "`the_document_says_every_rule_of_shape" in found.said


def test_a_link_leads_from_whatever_makes_something_to_all_that_can_be_asked_about_it() -> None:
    from api.openapi import document

    links = linked(document())["paths"]["/v1/runs/{run_id}/claim"]["post"]["responses"]["200"]["links"]
    close = next(link for name, link in links.items() if name.endswith("/v1/runs/{run_id}/close"))

    assert {"path.run_id": "$response.body#/run_id", "header.Jackline-Fence": "$response.body#/fence"} == close[
        "parameters"
    ]
