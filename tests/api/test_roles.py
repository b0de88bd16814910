"""Who may use which route: the table is that of the routes, and is what is enforced, for every role and none."""

import pytest

from api import roles
from api.app import endpoints
from api.channel import Channel
from api.presence import PresenceSocket
from api.roles import PUBLIC, TABLE, TableIncomplete
from tests.api.service import Service

ROLES = ("leader", "worker", "reader", "operator", "admin")
NAMES = {"run_id": "no-run", "worker_id": "no-worker", "queue": "q", "key": "k", "token": "t", "key_id": "nokeyhas"}
NAMES |= {"leader_id": "no%20leader", "session_id": "no-session", "fact_id": "no-fact"}
NAMES |= {"workspace_id": "no-workspace", "observer_id": "no%20observer", "turn": "1"}
ASKED = sorted(route for route in TABLE if not route.startswith("WS "))


def test_every_route_has_a_row_and_every_row_has_a_route() -> None:
    found = {route.key for route in endpoints()} | {Channel.key, PresenceSocket.key, "GET /livez", "GET /readyz"}

    assert set(TABLE) == found


def test_an_application_with_a_route_that_has_no_row_does_not_come_into_being() -> None:
    with pytest.raises(TableIncomplete, match="POST /v1/forgotten"):
        roles.check([*TABLE, "POST /v1/forgotten"])


def test_an_application_whose_table_has_a_row_without_a_route_does_not_come_into_being() -> None:
    with pytest.raises(TableIncomplete, match="POST /v1/claims"):
        roles.check(set(TABLE) - {"POST /v1/claims"})


def test_only_the_two_that_say_nothing_need_no_key() -> None:
    assert {"GET /livez", "GET /readyz"} == {route for route, allowed in TABLE.items() if allowed == PUBLIC}


def test_an_admin_may_use_every_route() -> None:
    assert [] == [route for route, allowed in TABLE.items() if allowed and "admin" not in allowed]


async def test_the_table_is_what_is_enforced_for_every_role(service: Service) -> None:
    keys = {role: service.made_key(role) for role in ROLES}
    wrong = []
    for route in ASKED:
        method, _, path = route.partition(" ")
        for role, key in keys.items():
            answer = await service.ask(method, path.format_map(NAMES), b"{}", key=key)
            let_in = answer.status_code != 403
            if let_in != (role in TABLE[route] or not TABLE[route]):
                wrong.append((route, role, answer.status_code))

    assert [] == wrong


async def test_without_a_key_that_opens_something_every_route_but_two_is_closed(service: Service) -> None:
    revoked = service.made_key("admin")
    service.node.keys.revoke(revoked.split("_")[1], service.node.clock().wall)
    open_to_all = set()
    for route in ASKED:
        method, _, path = route.partition(" ")
        for key in (None, "", "garbage", revoked):
            answer = await service.ask(method, path.format_map(NAMES), b"{}", key=key)
            if answer.status_code not in (401, 429):
                open_to_all.add(route)

    assert {"GET /livez", "GET /readyz"} == open_to_all


async def test_a_refusal_names_who_may(service: Service) -> None:
    refusal = await service.refused("POST", "/v1/runs", {}, key=service.made_key("reader", "ina"))

    assert ("not_allowed", ["admin", "leader"]) == (refusal["code"], refusal["allowed"])
    assert ("ina", "reader", "POST /v1/runs") == (refusal["principal"], refusal["role"], refusal["action"])


async def test_a_key_in_another_scheme_or_in_the_url_opens_nothing(service: Service) -> None:
    for headers, path in (
        ({"Authorization": f"Basic {service.key}"}, "/v1/whoami"),
        ({"Authorization": service.key}, "/v1/whoami"),
        ({}, f"/v1/whoami?key={service.key}"),
        ({}, f"/v1/whoami?ticket={service.key}"),
    ):
        refusal = await service.refused("GET", path, key=None, headers=headers)

        assert "unauthenticated" == refusal["code"]


async def test_a_refusal_for_want_of_a_key_says_how_to_show_one(service: Service) -> None:
    answer = await service.ask("GET", "/v1/whoami", key=None)

    assert 'Bearer realm="jackline"' == answer.headers["www-authenticate"]
