"""Facts to bytes and back: exact where meaning is at stake, lenient where it is not."""

from typing import Any

import msgspec
import pytest
from eventsourcing.persistence import Notification, StoredEvent

from domain.values import NULL, Fact, Json, of_json
from journal.errors import UndecodableFact, UnknownTopic
from journal.mapper import Codec, FactMapper, Meta, Recorded, encode_named
from journal.topics import Topics, aggregate_of, prefix_of
from tests.journal.accounts import CODEC, NOON, AccountOpened, Deposited

FULL = Meta("f", NOON, "cause", "run", "command", "leader:ada", "acme", "00-trace")


def test_one_array_holds_the_metadata_by_place_and_the_fact() -> None:
    state = CODEC.encode(Meta("f", NOON, tenant="acme"), AccountOpened(owner="ada"))

    assert b'[["f","2026-01-01T12:00:00Z",null,null,null,null,"acme",null],{"owner":"ada"}]' == state


def test_what_schema_1_stored_is_read_as_the_same() -> None:
    state = (
        b'{"meta":{"fact_id":"f","recorded_at":"2026-01-01T12:00:00Z","correlation_id":"c","tenant":"acme"},'
        b'"data":{"owner":"ada"}}'
    )

    envelope = CODEC.decode("account.opened.v1", state)

    assert Meta("f", NOON, correlation_id="c", tenant="acme") == envelope.meta
    assert AccountOpened(owner="ada") == envelope.data
    assert state == encode_named(envelope.meta, envelope.data)


@pytest.mark.parametrize("stream", ["run-r1", "lease-r1", "effects-r1"])
def test_a_run_that_the_stream_is_named_after_is_not_stored_again(stream: str) -> None:
    meta = Meta("f", NOON, correlation_id="r1")

    state = CODEC.encode(meta, AccountOpened(owner="ada"), stream)

    assert b"r1" not in state
    assert meta == CODEC.decode("account.opened.v1", state, stream).meta


@pytest.mark.parametrize("stream", ["run-r2", "worker-r1", "r1", "run"])
def test_a_correlation_that_the_stream_does_not_say_is_stored(stream: str) -> None:
    meta = Meta("f", NOON, correlation_id="r1")

    state = CODEC.encode(meta, AccountOpened(owner="ada"), stream)

    assert b'"r1"' in state
    assert meta == CODEC.decode("account.opened.v1", state, stream).meta


def test_a_fact_filed_under_its_streams_run_in_a_stream_that_has_none_cannot_be_read() -> None:
    state = CODEC.encode(Meta("f", NOON, correlation_id="r1"), AccountOpened(owner="ada"), "run-r1")

    with pytest.raises(UndecodableFact) as caught:
        CODEC.decode("account.opened.v1", state, "worker-w1", 4)

    assert "'worker-w1' is named after none" in caught.value.message


def test_what_was_encoded_is_decoded_to_the_same() -> None:
    fact = Deposited(amount=3, note=Json(b'{"a": [1,  2]}'))

    envelope = CODEC.decode("account.deposited.v1", CODEC.encode(FULL, fact))

    assert (FULL, fact) == (envelope.meta, envelope.data)


def test_fields_that_a_later_version_added_are_ignored() -> None:
    state = b'{"meta":{"fact_id":"f","recorded_at":"2026-01-01T12:00:00Z","x":1},"data":{"amount":3,"y":2},"z":3}'

    assert Deposited(amount=3, note=NULL) == CODEC.decode("account.deposited.v1", state).data


def test_an_unknown_name_is_an_error_and_never_an_import() -> None:
    with pytest.raises(UnknownTopic) as caught:
        CODEC.decode("tests.journal.accounts:Deposited", b"{}", "account-a", 3)

    assert {"topic": "tests.journal.accounts:Deposited", "stream": "account-a", "version": 3} == caught.value.fields()


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"meta":{"fact_id":"f","recorded_at":"2026-01-01T12:00:00Z"}}',
        b"\xff\xfe",
        b'{"meta":{"fact_id":"f","recorded_at":"2026-01-01T12:00:00Z"},"data":{"amount":"three"}}',
        b'{"meta":{"fact_id":"f","recorded_at":"yesterday"},"data":{"amount":3}}',
    ],
)
def test_bytes_without_the_promised_shape_are_an_error_that_names_the_place(state: bytes) -> None:
    with pytest.raises(UndecodableFact, match=r"account-a@3 \(account\.deposited\.v1\) cannot be read"):
        CODEC.decode("account.deposited.v1", state, "account-a", 3)


def test_a_table_has_one_name_for_each_fact() -> None:
    with pytest.raises(ValueError, match=r"account\.opened\.v1"):
        Topics({"account.opened.v1": AccountOpened, "account.begun.v1": AccountOpened})


def test_the_words_of_a_name_say_what_it_belongs_to() -> None:
    assert ("run", "lease", "effects") == (
        aggregate_of("run.submitted.v1"),
        prefix_of("lease-0190-x"),
        prefix_of("effects-0190"),
    )


class Moved(Fact, frozen=True, kw_only=True):
    """Today's shape of what was once stored as ``moved.v1`` (text) and ``moved.v2`` (number)."""

    amount_cents: int


OLD = Codec(
    Topics({"account.moved.v3": Moved}),
    {
        "account.moved.v1": ("account.moved.v2", lambda fields: {"euros": int(of_json(fields["text"]))}),
        "account.moved.v2": ("account.moved.v3", lambda fields: {"amount_cents": of_json(fields["euros"]) * 100}),
        "account.left.v1": ("account.left.v2", lambda fields: fields),
    },
)
META = b'{"meta":{"fact_id":"f","recorded_at":"2026-01-01T12:00:00Z"},"data":'


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("account.moved.v1", b'{"text":"7"}'),
        ("account.moved.v2", b'{"euros":7}'),
        ("account.moved.v3", b'{"amount_cents":700}'),
    ],
)
def test_every_old_shape_is_read_as_todays_fact(topic: str, payload: bytes) -> None:
    envelope = OLD.decode(topic, META + payload + b"}")

    assert (Moved(amount_cents=700), "f") == (envelope.data, envelope.meta.fact_id)


def test_a_step_that_leads_to_an_unknown_name_is_an_error() -> None:
    with pytest.raises(UnknownTopic, match=r"account\.left\.v2"):
        OLD.decode("account.left.v1", META + b"{}}")


def test_an_old_payload_that_does_not_become_todays_shape_is_an_error() -> None:
    with pytest.raises(UndecodableFact):
        OLD.decode("account.moved.v2", META + b'{"euros":"x"}}')


@pytest.mark.parametrize("payload", [b'{"text":"seven"}', b"{}"])
def test_a_step_that_fails_on_a_payload_is_an_error_that_names_the_place(payload: bytes) -> None:
    with pytest.raises(UndecodableFact, match="account-a@3"):
        OLD.decode("account.moved.v1", META + payload + b"}", "account-a", 3)


def test_user_json_inside_an_old_payload_keeps_its_bytes() -> None:
    class Noted(Fact, frozen=True, kw_only=True):
        note: Json

    codec = Codec(Topics({"a.noted.v2": Noted}), {"a.noted.v1": ("a.noted.v2", lambda old: {"note": old["text"]})})

    fact: Any = codec.decode("a.noted.v1", META + b'{"text":{"b": 1e3,  "a":"\\u00e9"}}}').data

    assert b'{"b": 1e3,  "a":"\\u00e9"}' == bytes(fact.note)


def test_the_library_maps_through_the_same_codec() -> None:
    mapper = FactMapper(CODEC)
    recorded = Recorded(0, "account-a", 3, "account.deposited.v1", Deposited(amount=1), FULL)

    stored = mapper.to_stored_event(recorded)

    assert StoredEvent("account-a", 3, "account.deposited.v1", CODEC.encode(FULL, Deposited(amount=1))) == stored
    assert recorded == mapper.to_domain_event(stored)
    notification = Notification("account-a", 3, "account.deposited.v1", stored.state, 9)
    assert msgspec.structs.replace(recorded, position=9) == mapper.to_domain_event(notification)
    assert ("account-a", 3) == (recorded.originator_id, recorded.originator_version)
