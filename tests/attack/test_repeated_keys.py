"""A key that is asked for twice under one idempotency key is made once, and its secret is shown once."""

from pathlib import Path

from tests.api.service import Service, running

ASKED = {"name": "crane", "role": "reader"}
UNDER = {"Idempotency-Key": "make crane"}


async def _ids(service: Service) -> list[str]:
    return [key["key_id"] for key in (await service.ok("GET", "/v1/keys"))["items"]]


async def test_a_repeat_makes_no_second_key_and_names_the_first(service: Service) -> None:
    made = await service.ok("POST", "/v1/keys", ASKED, headers=UNDER)
    before = await _ids(service)

    refusal = await service.refused("POST", "/v1/keys", ASKED, headers=UNDER)

    assert ("key_made", made["key_id"], 409) == (refusal["code"], refusal["key_id"], refusal["status"])
    assert made["key"].split("_")[2] not in str(refusal)
    assert before == await _ids(service)
    await service.ok("GET", "/v1/whoami", key=made["key"])


async def test_a_repeat_after_a_restart_makes_no_second_key(data_dir: Path) -> None:
    async with running(data_dir) as first:
        made = await first.ok("POST", "/v1/keys", ASKED, headers=UNDER)
        admin = first.key
    async with running(data_dir) as second:
        refusal = await second.refused("POST", "/v1/keys", ASKED, headers=UNDER, key=admin)

        assert made["key_id"] == refusal["key_id"]


async def test_a_lost_answer_is_made_good_by_revoking_and_asking_under_another_idempotency_key(
    service: Service,
) -> None:
    await service.ok("POST", "/v1/keys", ASKED, headers=UNDER)
    lost = (await service.refused("POST", "/v1/keys", ASKED, headers=UNDER))["key_id"]

    await service.ok("DELETE", f"/v1/keys/{lost}")
    made = await service.ok("POST", "/v1/keys", ASKED, headers={"Idempotency-Key": "make crane again"})

    await service.ok("GET", "/v1/whoami", key=made["key"])
    again = await service.refused("POST", "/v1/keys", ASKED, headers=UNDER)
    assert ("key_made", lost) == (again["code"], again["key_id"])


async def test_the_same_idempotency_key_for_another_key_is_refused(service: Service) -> None:
    await service.ok("POST", "/v1/keys", ASKED, headers=UNDER)
    before = await _ids(service)

    refusal = await service.refused("POST", "/v1/keys", {**ASKED, "role": "admin"}, headers=UNDER)

    assert "idempotency_mismatch" == refusal["code"]
    assert before == await _ids(service)


async def test_another_admin_may_use_the_same_idempotency_key_and_learns_nothing(service: Service) -> None:
    made = await service.ok("POST", "/v1/keys", ASKED, headers=UNDER)
    other = service.made_key("admin", "other")

    own = await service.ok("POST", "/v1/keys", ASKED, headers=UNDER, key=other)

    assert made["key_id"] != own["key_id"]


async def test_without_an_idempotency_key_each_request_makes_a_key(service: Service) -> None:
    first = await service.ok("POST", "/v1/keys", ASKED)
    second = await service.ok("POST", "/v1/keys", ASKED)

    assert first["key_id"] != second["key_id"]
