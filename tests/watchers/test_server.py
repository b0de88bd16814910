"""What is read of an API server's answers: at the bounds, one past them, and never more than they allow."""

import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.watchers.fake_apiserver import FakeApiServer, Fault, fake_apiserver
from watchers.kubernetes.credentials import Access, Nobody
from watchers.kubernetes.server import PODS, RETRY_AFTER_MAX_S, ApiServer, Blind, Bounds, Expired, Refused
from watchers.kubernetes.shapes import Meta

BOUND = 4_096
POD = {"type": "ADDED", "object": {"metadata": {"uid": "u", "name": "a"}, "status": {"message": ""}}}
Make = Callable[..., ApiServer]


@pytest.fixture
async def api() -> AsyncIterator[FakeApiServer]:
    """A server that says what it is told to."""
    async with fake_apiserver() as api:
        yield api


@pytest.fixture
async def make(api: FakeApiServer) -> AsyncIterator[Make]:
    """Makes clients of it."""
    made: list[ApiServer] = []

    def client(**bounds: Any) -> ApiServer:
        made.append(ApiServer(Access(api.url, False, Nobody()), Bounds(**bounds)))
        return made[-1]

    yield client
    for one in made:
        await one.close()


def padded(document: dict[str, Any], size: int) -> bytes:
    """The document in so many bytes of JSON."""
    text = json.dumps(document)
    return (text + " " * (size - len(text))).encode()


async def changes(server: ApiServer) -> list[str]:
    """The types of the changes that a watch shows."""
    async with server.watch(PODS, "default", {"resourceVersion": "1"}, 1) as found:
        return [change.type async for change in found]


async def test_a_line_of_the_most_bytes_is_read_and_one_more_is_too_long(api: FakeApiServer, make: Make) -> None:
    server = make(line_bytes=BOUND)
    api.fault = lambda asked: Fault(raw=padded(POD, BOUND) + b"\n")
    assert ["ADDED"] == await changes(server)
    api.fault = lambda asked: Fault(raw=padded(POD, BOUND + 1) + b"\n")
    with pytest.raises(Blind, match=f"more than {BOUND} bytes"):
        await changes(server)


async def test_an_answer_of_the_most_bytes_is_read_and_one_more_is_too_long(api: FakeApiServer, make: Make) -> None:
    server = make(body_bytes=BOUND)
    api.fault = lambda asked: Fault(raw=padded(POD["object"], BOUND))  # type: ignore[arg-type]
    assert "u" == (await server.get(PODS, "default", "a")).metadata.uid
    api.fault = lambda asked: Fault(raw=padded(POD["object"], BOUND + 1))  # type: ignore[arg-type]
    with pytest.raises(Blind, match=f"more than {BOUND} bytes"):
        await server.get(PODS, "default", "a")


async def test_a_gigabyte_costs_no_more_memory_than_the_bounds_allow(api: FakeApiServer, make: Make) -> None:
    server = make(body_bytes=1 << 20, line_bytes=1 << 20, answer_s=20.0)
    api.fault = lambda asked: Fault(raw=b"x" * 65_536, endless=True)
    tracemalloc.start()
    try:
        with pytest.raises(Blind, match="more than"):
            await server.page(PODS, "default", {})
        with pytest.raises(Blind, match="more than"):
            await changes(server)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 16 << 20


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, Blind),
        (403, Refused),
        (404, Refused),
        (410, Expired),
        (422, Refused),
        (429, Blind),
        (500, Blind),
        (504, Blind),
    ],
)
async def test_a_bad_status_is_an_expiry_a_refusal_or_nothing_known(
    api: FakeApiServer, make: Make, status: int, kind: type[Exception]
) -> None:
    api.fault = lambda asked: Fault(status=status)
    with pytest.raises(kind):
        await make().page(PODS, "default", {})


@pytest.mark.parametrize(
    "body",
    [
        b"<html>404 page not found</html>",
        b'{"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such route"}',
        b'{"kind": "Status", "code": 404, "reason": "Gone away", "message": "no \\"a\\" here"}',
        b'{"kind": "Status", "code": 404, "reason": "NotFound", "message": "\\"a\\"", "details": {"name": "b"}}',
        b'{"kind": "Status", "code": 404, "reason": "NotFound", "message": "\\"a\\"", "details": ["a"]}',
    ],
)
@pytest.mark.origin("K12")
async def test_a_404_about_nothing_in_particular_is_no_proof_of_an_end(
    api: FakeApiServer, make: Make, body: bytes
) -> None:
    api.fault = lambda asked: Fault(status=404, raw=body)
    meta = Meta(name="a", namespace="default", uid="u")
    with pytest.raises(Blind, match="404 that does not say"):
        await make().get(PODS, "default", "a")
    with pytest.raises(Blind, match="404 that does not say"):
        await make().delete(PODS, meta)


async def test_the_server_s_own_404_says_that_there_is_no_such_object(api: FakeApiServer, make: Make) -> None:
    said = {"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "a"}}
    api.fault = lambda asked: Fault(status=404, raw=json.dumps(said).encode())
    assert await make().get(PODS, "default", "a") is None
    api.fault = lambda asked: None
    assert await make().get(PODS, "default", "a") is None


@pytest.mark.parametrize(("namespace", "name"), [(None, "a"), ("", "a"), ("default", "")])
async def test_what_has_no_name_or_namespace_is_not_asked_for(
    api: FakeApiServer, make: Make, namespace: str | None, name: str
) -> None:
    with pytest.raises(Blind, match="without a name or a namespace"):
        await make().get(PODS, namespace, name)


async def test_an_answer_about_another_object_is_no_proof_of_an_end(api: FakeApiServer, make: Make) -> None:
    api.fault = lambda asked: Fault(raw=b'{"metadata": {"uid": "v", "name": "b"}}')
    with pytest.raises(Blind, match="told of 'b'"):
        await make().get(PODS, "default", "a")


async def test_a_retry_after_is_passed_on(api: FakeApiServer, make: Make) -> None:
    server = make()
    api.fault = lambda asked: Fault(status=429, headers={"Retry-After": "7"})
    with pytest.raises(Blind) as raised:
        await server.page(PODS, "default", {})

    assert 7.0 == raised.value.retry_after_s


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("60", RETRY_AFTER_MAX_S), ("61", RETRY_AFTER_MAX_S), ("9" * 400, RETRY_AFTER_MAX_S), ("-1", 0.0), ("soon", 0.0)],
)
async def test_a_server_is_not_left_alone_longer_than_a_minute(
    api: FakeApiServer, make: Make, said: str, seconds: float
) -> None:
    api.fault = lambda asked: Fault(status=503, headers={"Retry-After": said})
    with pytest.raises(Blind) as raised:
        await make().page(PODS, "default", {})

    assert seconds == raised.value.retry_after_s


async def test_names_are_quoted_into_the_path(make: Make, api: FakeApiServer) -> None:
    assert await make().get(PODS, "default", "../nodes/n1?x=1#y") is None
    assert ("pods", "../nodes/n1?x=1#y") == (api.asked[-1].plural, api.asked[-1].name)


async def test_an_object_under_the_name_with_another_uid_is_not_deleted(make: Make, api: FakeApiServer) -> None:
    wish = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main"}]}}
    await api.write(lambda store: store.create("pods", "default", wish))
    server = make()
    found = await server.get(PODS, "default", "a")
    await api.write(lambda store: store.remove(("pods", "default", "a")))
    await api.write(lambda store: store.create("pods", "default", wish))

    assert not await server.delete(PODS, found.metadata)
    assert ("pods", "default", "a") in api.store.objects
