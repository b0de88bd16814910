"""A leader's presence: counted, dated by the drop, and gone only after its whole grace."""

import pytest
from hypothesis import given as any_of
from hypothesis import strategies as st

from domain.decider import fold
from domain.presence import (
    CONNECTIONS_MAX,
    NEVER_SEEN,
    Connect,
    DropCause,
    LeaderConnected,
    LeaderDisconnected,
    LeaderGone,
    LeaderReturned,
    LeaderVanished,
    Presence,
    PresenceReseeded,
    connect,
    declare_gone,
    disconnect,
    evolve,
    gone_for_at_least,
    reseed,
)
from domain.refusal import InvalidCommand
from tests.domain.kit import noon


def link(presence: Presence, connection_id: str = "c1", *, at: float = 0.0, session: bool = False) -> Presence:
    kind, boot_id = ("session", None) if session else ("stream", "b1")
    command = Connect(leader_id="ada", connection_id=connection_id, kind=kind, boot_id=boot_id)  # type: ignore[arg-type]
    return fold(evolve, presence, connect(presence, command, noon(at)))


def drop(presence: Presence, connection_id: str = "c1", *, at: float, cause: DropCause = "closed") -> Presence:
    return fold(evolve, presence, disconnect(presence, "ada", connection_id, cause, noon(at)))


@pytest.mark.origin("A8", "A12", "R1")
def test_only_the_true_fall_to_none_is_an_absence() -> None:
    two = link(link(NEVER_SEEN), "c2")

    assert [LeaderDisconnected] == [type(fact) for fact in disconnect(two, "ada", "c1", "closed", noon(1))]
    one = drop(two, at=1)
    assert [LeaderDisconnected, LeaderVanished] == [
        type(fact) for fact in disconnect(one, "ada", "c2", "closed", noon(2))
    ]
    assert noon(2) == drop(one, "c2", at=2).zero_since


def test_a_connection_is_counted_and_given_back_once() -> None:
    one = link(NEVER_SEEN)

    assert [] == connect(one, Connect(leader_id="ada", connection_id="c1", kind="stream", boot_id="b1"), noon(1))
    assert [] == disconnect(drop(one, at=1), "ada", "c1", "closed", noon(2))


def test_a_session_that_asks_for_another_ttl_is_recorded_with_it_and_still_counted_once() -> None:
    one = link(NEVER_SEEN, session=True)
    longer = Connect(leader_id="ada", connection_id="c1", kind="session", boot_id=None, ttl_s=600)
    facts = connect(one, longer, noon(1))

    assert [LeaderConnected] == [type(fact) for fact in facts]
    after = fold(evolve, one, facts)
    assert {"c1": 600} == {key: counted.ttl_s for key, counted in after.connections.items()}
    assert [] == connect(after, longer, noon(2))


def test_a_return_ends_the_absence_and_says_since_when_it_lasted() -> None:
    away = drop(link(NEVER_SEEN), at=5)
    facts = connect(away, Connect(leader_id="ada", connection_id="c2", kind="stream", boot_id="b1"), noon(9))

    assert isinstance(facts[0], LeaderConnected)
    assert LeaderReturned(leader_id="ada", away_since=noon(5)) == facts[1]
    assert fold(evolve, away, facts).zero_since is None


def test_one_connection_more_than_is_carried_is_refused() -> None:
    many = NEVER_SEEN
    for number in range(CONNECTIONS_MAX):
        many = link(many, f"c{number}")

    with pytest.raises(InvalidCommand):
        link(many, "more")


def test_our_own_stop_begins_no_absence() -> None:
    stopped = drop(link(NEVER_SEEN), at=5, cause="server_stopping")

    assert ({}, None) == (stopped.connections, stopped.zero_since)


@pytest.mark.origin("A13")
def test_a_leader_that_was_never_seen_or_is_there_is_not_gone_however_long() -> None:
    assert not gone_for_at_least(NEVER_SEEN, 1e9, 60)
    assert not gone_for_at_least(link(NEVER_SEEN), 1e9, 60)
    assert [] == declare_gone(NEVER_SEEN, "ada", 1e9, 60)


@pytest.mark.origin("A9", "A10")
def test_a_leader_is_gone_at_the_very_instant_at_which_its_grace_is_over_and_told_once() -> None:
    away = drop(link(NEVER_SEEN), at=0)

    assert [] == declare_gone(away, "ada", 59.999, 60)
    (gone,) = declare_gone(away, "ada", 60, 60)
    assert LeaderGone(leader_id="ada", zero_since=noon(0), grace_s=60) == gone
    assert [] == declare_gone(evolve(away, gone), "ada", 90, 60)


@pytest.mark.origin("A14")
def test_seeding_overwrites_neither_a_connection_nor_an_earlier_absence() -> None:
    away = drop(link(NEVER_SEEN), at=0)

    assert [] == reseed(away, "ada", "submitted", noon(9))
    assert [] == reseed(link(NEVER_SEEN), "ada", "reassigned", noon(9))
    assert [PresenceReseeded(leader_id="ada", zero_since=noon(9), cause="submitted")] == reseed(
        NEVER_SEEN, "ada", "submitted", noon(9)
    )


@pytest.mark.origin("A27")
def test_a_boot_voids_links_of_the_boot_before_and_keeps_sessions() -> None:
    linked, both = link(NEVER_SEEN), link(link(NEVER_SEEN), "s1", session=True)
    alone = fold(evolve, linked, reseed(linked, "ada", "boot", noon(9)))
    kept = fold(evolve, both, reseed(both, "ada", "boot", noon(9)))

    assert ({}, noon(9)) == (alone.connections, alone.zero_since)
    assert (["s1"], None) == (list(kept.connections), kept.zero_since)
    assert [] == reseed(kept, "ada", "boot", noon(10))


@pytest.mark.origin("A48", "A6")
@any_of(st.lists(st.tuples(st.booleans(), st.sampled_from(["c1", "c2", "c3"])), max_size=30))
def test_after_any_comings_and_goings_the_count_is_that_of_who_is_there(steps: list[tuple[bool, str]]) -> None:
    presence, there, falls = NEVER_SEEN, set[str](), 0
    for at, (comes, who) in enumerate(steps):
        falls += there == {who} and not comes
        facts = (
            connect(presence, Connect(leader_id="ada", connection_id=who, kind="stream", boot_id="b"), noon(at))
            if comes
            else disconnect(presence, "ada", who, "closed", noon(at))
        )
        there = there | {who} if comes else there - {who}
        presence = fold(evolve, presence, facts)

        assert there == set(presence.connections)
        assert (not there and falls > 0) == (presence.zero_since is not None)


def test_an_absence_begins_at_the_latest_drop_though_an_earlier_end_of_a_session_is_found_out_after_it() -> None:
    both = link(link(NEVER_SEEN), "s1", session=True)
    three = link(both, "s2", session=True)

    assert noon(9) == drop(drop(both, at=9), "s1", at=5, cause="expired").zero_since
    found_out = drop(drop(drop(three, at=9), "s1", at=5, cause="expired"), "s2", at=6, cause="expired")
    assert noon(9) == found_out.zero_since
