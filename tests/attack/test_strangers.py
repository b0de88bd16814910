"""Keys that open nothing: so many a minute from one address are answered, and whoever holds a real one never waits."""

from typing import Any

import pytest
from starlette.requests import Request

from api.strangers import ADDRESSES_MAX, WINDOW_S, Strangers, address_of
from tests.api.service import Service

LIMIT = 10
EVERY_S = WINDOW_S / LIMIT


def test_as_many_failures_as_the_limit_need_not_wait_and_one_more_must() -> None:
    strangers = Strangers(LIMIT)

    waits = [strangers.failed("a", 0.0) for _ in range(LIMIT + 1)]

    assert [0.0] * LIMIT + [EVERY_S] == waits


def test_the_next_failure_is_heard_at_the_very_instant_that_was_named() -> None:
    strangers = Strangers(LIMIT)
    for _ in range(LIMIT):
        strangers.failed("a", 0.0)

    assert 0.0 < strangers.failed("a", EVERY_S - 0.001)
    assert 0.0 == strangers.failed("a", EVERY_S)
    assert 0.0 < strangers.failed("a", EVERY_S)


def test_all_failures_are_given_back_after_a_minute() -> None:
    strangers = Strangers(LIMIT)
    for _ in range(LIMIT):
        strangers.failed("a", 0.0)

    waits = [strangers.failed("a", WINDOW_S) for _ in range(LIMIT + 1)]

    assert [0.0] * LIMIT == waits[:LIMIT]
    assert 0.0 < waits[LIMIT]


def test_a_refused_failure_does_not_make_the_wait_longer() -> None:
    strangers = Strangers(LIMIT)
    for _ in range(LIMIT):
        strangers.failed("a", 0.0)

    assert {EVERY_S} == {strangers.failed("a", 0.0) for _ in range(100)}


def test_another_address_does_not_pay() -> None:
    strangers = Strangers(LIMIT)
    for _ in range(LIMIT + 1):
        strangers.failed("a", 0.0)

    assert 0.0 == strangers.failed("b", 0.0)


def test_only_so_many_addresses_are_remembered_and_the_longest_quiet_one_is_forgotten() -> None:
    strangers = Strangers(1)
    for number in range(ADDRESSES_MAX):
        strangers.failed(str(number), 0.0)
    assert 0.0 < strangers.failed("0", 0.0)

    strangers.failed("one more", 0.0)

    assert ADDRESSES_MAX == len(strangers)
    assert 0.0 < strangers.failed("0", 0.0)
    assert 0.0 == strangers.failed("1", 0.0)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not an address", ""),
    ],
)
def test_a_host_counts_once_whatever_it_is_called(host: str, address: str) -> None:
    assert address == address_of({"client": (host, 1)})


def test_what_came_over_no_network_has_no_address() -> None:
    assert "" == address_of({"client": None})


async def _told(service: Service, **options: Any) -> tuple[int, str | None]:
    answer = await service.ask("GET", "/v1/whoami", **options)
    return answer.status_code, answer.headers.get("retry-after")


async def test_the_eleventh_key_that_opens_nothing_is_told_to_wait_and_a_real_one_is_let_in(service: Service) -> None:
    told = [await _told(service, key=f"wrong-{number}") for number in range(LIMIT + 1)]

    assert [401] * LIMIT + [429] == [status for status, _ in told]
    assert told[-1][1] is not None
    assert 1 <= int(told[-1][1]) <= EVERY_S
    assert 200 == (await _told(service))[0]
    refusal = await service.refused("GET", "/v1/whoami", key="wrong")
    assert ("rate_limited", LIMIT) == (refusal["code"], refusal["limit"])


async def test_a_key_made_while_others_fail_is_let_in(service: Service) -> None:
    for _ in range(LIMIT + 1):
        await _told(service, key="wrong")

    assert 200 == (await _told(service, key=service.made_key("reader")))[0]


async def test_tickets_that_open_nothing_count_like_keys(service: Service) -> None:
    answers = [await service.ask("GET", f"/v1/whoami?ticket=t{number}", key=None) for number in range(LIMIT + 1)]

    assert [401] * LIMIT + [429] == [answer.status_code for answer in answers]


async def test_whoever_shows_no_key_at_all_guesses_nothing_and_is_not_counted(service: Service) -> None:
    answers = [await _told(service, key=None) for _ in range(LIMIT * 3)]

    assert {401} == {status for status, _ in answers}
    assert 401 == (await _told(service, key="wrong"))[0]


def test_the_scope_of_a_request_is_enough() -> None:
    assert "127.0.0.1" == address_of(Request({"type": "http", "client": ("127.0.0.1", 5)}).scope)
