"""What the fuzzers found, each at its bound and one past it, so that it stays found."""

import base64
from pathlib import Path

import pytest

from api.problems import TEXT_MAX_CHARS
from api.requests import SAFE_INTEGER
from tests.api.service import Service

ID_MAX_CHARS = 128


@pytest.mark.parametrize(("after", "status"), [(SAFE_INTEGER, 200), (SAFE_INTEGER + 1, 422), (2**63, 422)])
async def test_a_position_is_read_up_to_its_bound(service: Service, after: int, status: int) -> None:
    run_id = await service.submitted()

    answer = await service.ask("GET", f"/v1/runs/{run_id}/facts?after={after}")

    assert status == answer.status_code


@pytest.mark.parametrize(("fence", "code"), [(SAFE_INTEGER, "fence_lost"), (SAFE_INTEGER + 1, "invalid")])
async def test_a_fence_in_the_head_is_read_up_to_its_bound(service: Service, fence: int, code: str) -> None:
    run_id = await service.held()

    refusal = await service.refused("POST", f"/v1/runs/{run_id}/hand-back", {}, headers={"Jackline-Fence": str(fence)})

    assert code == refusal["code"]


async def test_a_cursor_that_is_nested_without_end_is_refused_like_any_other(service: Service) -> None:
    cursor = base64.urlsafe_b64encode(b"x" * 12 + b"\x92" + b"\x91" * 1_450).decode()

    refusal = await service.refused("GET", f"/v1/runs?cursor={cursor}")

    assert ("invalid", "cursor") == (refusal["code"], refusal["field"])
    assert "ok" == (await service.ok("GET", "/healthz"))["status"]


@pytest.mark.parametrize(("size", "status"), [(ID_MAX_CHARS, 201), (ID_MAX_CHARS + 1, 422)])
async def test_the_ids_of_a_key_are_bounded(service: Service, size: int, status: int) -> None:
    wanted = {"name": "long", "role": "worker", "worker_ids": ["w" * size]}

    assert status == (await service.ask("POST", "/v1/keys", wanted)).status_code


@pytest.mark.parametrize(("size", "whole"), [(TEXT_MAX_CHARS, True), (TEXT_MAX_CHARS + 1, False)])
async def test_a_refused_value_is_shown_whole_up_to_a_bound_and_else_by_its_beginning(
    service: Service, size: int, whole: bool
) -> None:
    refusal = await service.refused("GET", f"/v1/runs/{'x' * size}")

    assert TEXT_MAX_CHARS == len(refusal["run_id"])
    assert refusal["run_id"].endswith("x") == whole
    assert len(refusal["detail"]) <= TEXT_MAX_CHARS


@pytest.mark.parametrize("encoding", ["identity", "Identity", "gzip", "br", "gzip, identity", ""])
async def test_a_body_is_taken_as_it_is_or_not_at_all(service: Service, encoding: str) -> None:
    answer = await service.ask("POST", "/v1/runs", {}, headers={"Content-Encoding": encoding})

    assert (201 if encoding.lower() == "identity" else 415) == answer.status_code


async def test_a_key_with_a_wrong_checksum_opens_nothing(service: Service) -> None:
    assert 200 == (await service.ask("GET", "/v1/whoami")).status_code
    for wrong in (service.key[:-1], service.key + "0", service.key[:-1] + ("0" if service.key[-1] != "0" else "1")):
        assert 401 == (await service.ask("GET", "/v1/whoami", key=wrong)).status_code


async def test_a_reservation_of_nothing_is_answered_without_a_body(service: Service, data_dir: Path) -> None:
    await service.ok("PUT", "/v1/workers/w1", {})

    answer = await service.ask("POST", "/v1/reservations", {"worker_id": "w1"})

    assert (204, b"") == (answer.status_code, answer.content)
