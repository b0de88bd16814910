"""Checkpoints: a start that goes by one comes to the very state of a start that reads everything, or reads everything.

Compared is all that a desk keeps in memory, value by value, moments included; nothing is left out but caches and
callables. What is done to the file afterwards (cut off, altered, swapped) must cost time and nothing else.
"""

import asyncio
import contextlib
import itertools
import random
from array import array
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import presence
from commands.boot import Opening
from commands.desk import Desk, Timers
from commands.presence import Link
from domain.refusal import Refusal
from journal.checkpoints import Checkpoint, CheckpointUnusable, read_checkpoint, write_checkpoint
from journal.opening import renew_epoch
from projections import checkpointing
from projections.checkpointing import Checkpoints
from projections.live.deadlines import Deadlines
from projections.live.kept import Kept, rules
from tests.commands.absent import connected, dropped, recorded, session
from tests.commands.clockwork import VirtualLoop
from tests.commands.test_replay import ACTS, Chance
from tests.commands.world import ADMIN, World, opened

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEPS = 45
POSITIONS = 4
LEADERS = ("ada", "bea")


def dump(thing: Any, seen: frozenset[int] = frozenset()) -> Any:
    """Everything that is reachable from here, in a form that can be compared."""
    if isinstance(thing, str | int | float | bytes | datetime | None):
        return thing
    if callable(thing) or isinstance(thing, asyncio.Event) or id(thing) in seen:
        return type(thing).__name__
    if isinstance(thing, Deadlines):
        thing = thing.all()  # without the void ones that a heap carries along
    below = seen | {id(thing)}
    if isinstance(thing, dict):
        return {repr(key): dump(value, below) for key, value in thing.items() if value != []}
    if isinstance(thing, set | frozenset):
        return sorted(map(repr, thing))
    if isinstance(thing, tuple | list):
        return [dump(one, below) for one in thing]
    names = getattr(thing, "__struct_fields__", None) or getattr(type(thing), "__slots__", None) or vars(thing)
    return {"is": type(thing).__name__, **{name: dump(getattr(thing, name), below) for name in names}}


def differs(one: Any, other: Any, where: str = "") -> str | None:
    """The first place in which two dumps differ, with what is there in each; None when there is none."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        found = (differs(value, other[key], f"{where}.{key}") for key, value in one.items())
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        found = (differs(value, with_it, f"{where}[{index}]") for index, (value, with_it) in pairs)
    else:
        return None if one == other else f"{where}: {one!r} and {other!r}"
    return next((difference for difference in found if difference is not None), None)


def everything(desk: Desk) -> Any:
    """What a desk keeps in memory about the present."""
    return dump([desk.live, desk.evidence])


def kept_at(world: World, position: int) -> Kept:
    """What matters at a position."""
    kept = Kept()
    kept.fold(world.journal.store.facts_after(0, position))
    return kept


def started(world: World, checkpoint: Checkpoint | None) -> Opening:
    """A start, all but its following."""
    opening = Opening(world.journal, world.clock, world.mint, Timers(), checkpoint)
    while opening.replay_some():
        pass
    opening.finish()
    world.journal.listeners.pop()
    return opening


class Attended(Chance):
    """Random acts, with leaders that come and go."""

    def __init__(self, world: World, seed: int, *, jumps: bool) -> None:
        super().__init__(world, seed, jumps=jumps)
        self.links: list[tuple[Any, Link]] = []

    async def lead(self) -> None:
        """A leader arrives, leaves, or is heard once more."""
        leader_id = self.random.choice(LEADERS)
        acts: list[Callable[[], Awaitable[Any]]] = [
            lambda: dropped(self.world, leader_id),
            lambda: session(self.world, self.random.choice(["s1", "s2"]), 15, leader_id),
            lambda: presence.leave_session(self.world.desk, ADMIN, leader_id, "s1"),
            lambda: presence.reseed_leaders(self.world.desk),
        ]
        await self.random.choice(acts)()

    async def arrive(self) -> None:
        """A leader's stream is opened and stays."""
        there = presence.present(self.world.desk, ADMIN, self.random.choice(LEADERS), "stream")
        self.links.append((there, await there.__aenter__()))

    async def part(self) -> None:
        """One of those streams ends, by its own side or by ours."""
        if self.links:
            there, link = self.links.pop(self.random.randrange(len(self.links)))
            link.cause = self.random.choice(["closed", "server_stopping"])
            await there.__aexit__(None, None, None)
            await recorded(self.world)

    async def any_act(self) -> None:
        """One act of somebody; a refusal is an answer like any other."""
        name = self.random.choice(SINGLE_ACTS)
        self.story.append(name)
        with contextlib.suppress(Refusal):
            await EVERY_ACT[name](self)


EVERY_ACT: dict[str, Callable[[Any], Awaitable[None]]] = {
    **ACTS,
    **{f"lead {number}": Attended.lead for number in range(3)},
    **{f"arrive {number}": Attended.arrive for number in range(2)},
    **{f"part {number}": Attended.part for number in range(2)},
}
SINGLE_ACTS = [name for name in sorted(EVERY_ACT) if not name.startswith("crowd")]


async def lived(seed: int, where: list[float], path: Path) -> None:
    async with opened() as world:
        chance = Attended(world, seed, jumps=seed % 2 == 1)
        for _ in range(STEPS):
            await chance.any_act()
        start_the_same(world, where, path, (seed, chance.story))
        while chance.links:
            await chance.part()


def start_the_same(world: World, where: list[float], path: Path, told: Any) -> None:
    """Starts from checkpoints at these places of the journal come to the state of a start that reads all of it."""
    whole, tail = started(world, None), world.journal.position
    for place in where:
        position = max(1, min(tail, round(place * tail)))
        kept = kept_at(world, position)
        write_checkpoint(path, world.journal.store, Checkpoint(position, kept.positions()), rules(), NOON)
        opening = started(world, read_checkpoint(path, world.journal.store, rules()))

        assert differs(everything(opening.desk), everything(whole.desk)) is None, (position, told)
        assert opening.kept.positions() == whole.kept.positions(), (position, told)
        assert opening.replayed == len(kept.positions()) + tail - position


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(min_value=0, max_value=2**32),
    where=st.lists(st.floats(0, 1), min_size=POSITIONS, max_size=POSITIONS),
)
@pytest.mark.origin("H10")
def test_a_start_from_a_checkpoint_at_any_position_comes_to_the_state_of_a_full_replay(
    tmp_path_factory: pytest.TempPathFactory, seed: int, where: list[float]
) -> None:
    loop, path = VirtualLoop(), tmp_path_factory.getbasetemp() / "checkpoint"
    try:
        loop.run_until_complete(lived(seed, where, path))
    finally:
        loop.close()


async def busy(world: World, settled: int = 20) -> None:
    """A world in which most runs have ended, one is held, one is queued, and somebody is away."""
    await world.worker("w1", slots=50)
    for _ in range(settled):
        await world.submit(leader_id="ada")
        claim = await world.claimed("w1")
        await world.close(claim["run_id"], claim["fence"])
    await world.submit(leader_id="bea")
    await world.submit(queue="other")
    await world.claimed("w1")
    await dropped(world, "bea")


async def test_runs_that_have_ended_are_not_read_again(world: World) -> None:
    await busy(world)
    kept = kept_at(world, world.journal.position)
    opening = started(world, Checkpoint(world.journal.position, kept.positions()))

    assert world.journal.position > 80
    assert opening.replayed < 12
    assert differs(everything(started(world, None).desk), everything(opening.desk)) is None


async def test_a_leader_that_comes_and_goes_for_ever_is_kept_in_one_fact(world: World) -> None:
    async with connected(world, "ada"):
        for _ in range(10):
            await dropped(world, "ada")
        assert 1 == len(kept_at(world, world.journal.position).positions())
    assert 1 == len(kept_at(world, world.journal.position).positions())


async def test_a_kind_of_stream_that_nothing_is_known_about_is_kept_for_good(world: World) -> None:
    await world.submit()
    recorded = world.journal.store.facts_after(0, 1)[0]
    kept = Kept()
    kept.fold([msgspec.structs.replace(recorded, stream="unheard-of", position=7)])

    assert array("q", [7]) == kept.positions()


@pytest.mark.parametrize("how", ["cut", "flipped", "empty", "text", "swapped", "older rules", "longer", "shorter"])
async def test_a_checkpoint_that_is_damaged_is_left_aside_with_one_line(world: World, tmp_path: Path, how: str) -> None:
    await busy(world)
    path, position = tmp_path / "checkpoint", world.journal.position
    write_checkpoint(path, world.journal.store, Checkpoint(position, array("q", [1, 2, 3])), rules(), NOON)
    content = path.read_bytes()
    head, _, body = content.partition(b"\n")
    altered = {
        "cut": content[:-3],
        "flipped": content[:-3] + bytes([content[-3] ^ 4]) + content[-2:],
        "empty": b"",
        "text": b"not a checkpoint\n",
        "swapped": body + b"\n" + head,
        "older rules": head.replace(rules().encode(), b"0" * 16) + b"\n" + body,
        "longer": head.replace(b'"kept":3', b'"kept":2') + b"\n" + body,
        "shorter": head.replace(b'"kept":3', b'"kept":4') + b"\n" + body,
    }[how]
    path.write_bytes(altered)

    with pytest.raises(CheckpointUnusable, match="the whole journal is read instead"):
        read_checkpoint(path, world.journal.store, rules())
    assert position == started(world, None).replayed


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_alteration_of_one_byte_is_believed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    loop, path = VirtualLoop(), tmp_path_factory.getbasetemp() / "altered"

    async def alter() -> None:
        async with opened() as world:
            await world.submit()
            write_checkpoint(path, world.journal.store, Checkpoint(1, array("q", [1])), rules(), NOON)
            content = bytearray(path.read_bytes())
            place = data.draw(st.integers(0, len(content) - 1))
            content[place] ^= data.draw(st.integers(1, 255))
            path.write_bytes(content)
            try:
                found = read_checkpoint(path, world.journal.store, rules())
            except CheckpointUnusable:
                return
            assert Checkpoint(1, array("q", [1])) == found  # the instant at which it was written decides nothing

    try:
        loop.run_until_complete(alter())
    finally:
        loop.close()


async def test_a_checkpoint_of_another_journal_of_a_restored_one_or_of_the_future_is_left_aside(
    data_dir: Path, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint"
    async with opened(data_dir / "one") as world:
        await world.submit()
        store = world.journal.store
        write_checkpoint(path, store, Checkpoint(1, array("q", [1])), rules(), NOON)
        async with opened(data_dir / "two", itertools.count(1_000)) as other:
            await other.submit()
            with pytest.raises(CheckpointUnusable, match="it belongs to journal"):
                read_checkpoint(path, other.journal.store, rules())
        content = path.read_bytes()
        path.write_bytes(content.replace(b'"position":1', b'"position":2'))
        with pytest.raises(CheckpointUnusable, match="it is of position 2, and the journal ends at 1"):
            read_checkpoint(path, store, rules())
        path.write_bytes(content.replace(b'"position":1', b'"position":0'))
        with pytest.raises(CheckpointUnusable, match="another fact at position 0"):
            read_checkpoint(path, store, rules())
        path.write_bytes(content)
        store.epoch = renew_epoch(world.journal.application, world.mint)  # type: ignore[arg-type]
        with pytest.raises(CheckpointUnusable, match="restored"):
            read_checkpoint(path, store, rules())


async def test_a_checkpoint_that_lists_what_the_journal_does_not_hold_makes_the_start_begin_anew(world: World) -> None:
    await busy(world)
    position = world.journal.position
    opening = started(world, Checkpoint(position - 3, array("q", [1, 2, position + 9])))

    assert opening.checkpoint is None
    assert position == opening.replayed
    assert differs(everything(started(world, None).desk), everything(opening.desk)) is None


async def test_a_checkpoint_is_written_after_so_many_facts_and_none_before(
    each_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "EVERY_FACTS", 10)
    world, path = each_world, tmp_path / "checkpoint"
    following = Checkpoints(world.journal, path, world.clock)
    following.follow(Kept(), following.find())
    for _ in range(9):
        await world.submit()
    await following.step()
    assert not path.exists()
    await world.submit()
    await following.step()

    assert 10 == following.position
    assert Checkpoint(10, array("q", range(1, 11))) == read_checkpoint(path, world.journal.store, rules())


async def test_a_checkpoint_is_written_after_so_many_seconds_and_only_if_there_is_something_new(
    each_world: World, tmp_path: Path
) -> None:
    world, path = each_world, tmp_path / "checkpoint"
    following = Checkpoints(world.journal, path, world.clock)
    following.follow(Kept(), following.find())
    world.go(checkpointing.EVERY_S)
    await following.step()
    assert not path.exists()
    await world.submit()
    await following.step()
    first = path.read_bytes()
    world.go(checkpointing.EVERY_S)
    await following.step()
    await following.stop()

    assert first == path.read_bytes()


async def test_a_checkpoint_that_cannot_be_written_is_said_counted_and_tried_again(
    world: World, tmp_path: Path
) -> None:
    place = tmp_path / "there"
    following = Checkpoints(world.journal, place / "checkpoint", world.clock)
    following.follow(Kept(), None)
    await world.submit()
    await following.stop()
    assert (1, 0) == (following.errors, following.position)
    assert "after position 0" in str(following.health()["first_error"])
    place.mkdir()
    await following.stop()

    assert (1, 1, None) == (following.errors, following.position, following.first_error)
    assert ["checkpoint"] == [file.name for file in place.iterdir()]


async def test_what_a_follower_wrote_while_everything_went_on_is_what_a_start_needs(
    data_dir: Path, tmp_path: Path
) -> None:
    chosen = random.Random(5)
    async with opened(data_dir) as world:
        following = Checkpoints(world.journal, tmp_path / "checkpoint", world.clock)
        following.follow(started(world, None).kept, None)
        chance = Chance(world, 5, jumps=False)
        for _ in range(60):
            await chance.act(sorted(ACTS))
            if chosen.random() < 0.2:
                await following.stop()
        found = following.find()
        assert found is not None
        assert differs(everything(started(world, None).desk), everything(started(world, found).desk)) is None
