"""Lists of the past: at any position, with any filter and order, what a read model that stopped there would give."""

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.past_runs import PastRuns
from projections.stored import listing as lists
from projections.stored.listing import SORTS, Listing
from projections.stored.runs import RunsModel, item_of
from tests.projections.acts import ACTS, TENANT
from tests.projections.world import BOUND_S, World, followed, opened, refolded

RUNS = tuple(f"r{number}" for number in range(7))
STEPS = 60
PLACES = 8


def plain(value: Any) -> Any:
    """An answer as its reader sees it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def asked(chosen: random.Random, position: int) -> Listing:
    """Some list of the past."""
    return Listing(
        state=chosen.choice([(), (), ("queued",), ("running", "paused"), ("succeeded",)]),
        queue=chosen.choice([None, None, "default", "other"]),
        owner=chosen.choice([None, None, None, "w1"]),
        leader_id=chosen.choice([None, None, None, "ada"]),
        tags=chosen.choice([(), (), ("team:core",)]),
        q=chosen.choice([None, None, "NIGHT", "r3"]),
        sort=chosen.choice(["", "-"]) + chosen.choice(SORTS),
        limit=chosen.choice([1, 2, 3, 50]),
        at=position,
    )


def stopped(world: World, wanted: Listing) -> list[Any]:
    """What a read model that stopped at the position would list, in one go."""
    assert wanted.at is not None
    whole = msgspec.structs.replace(wanted, limit=500, at=None, cursor=None)
    with contextlib.closing(refolded(world, wanted.at)) as made:
        query = lists.query(TENANT, whole, "")
        return list(plain([item_of(row, wanted.at) for row in made.execute(query.statement, query.parameters)]))


def every(past: PastRuns, wanted: Listing) -> list[Any]:
    """All pages of a list."""
    found: list[Any] = []
    while True:
        page = past.list_now(TENANT, wanted)
        found += plain(page["items"])
        if page["next_cursor"] is None:
            return found
        wanted = msgspec.structs.replace(wanted, cursor=page["next_cursor"])


async def lived(seed: int, data_dir: Path) -> None:
    chosen = random.Random(seed)
    async with opened(None) as world, followed(world, data_dir, batch=7) as runner:
        for _ in range(STEPS):
            await world.act(chosen.choice(RUNS), chosen.choice(sorted(ACTS)), after_s=chosen.choice([0, 1, 70]))
        await runner.caught_up(BOUND_S)
        model = runner.models["runs"]
        assert isinstance(model, RunsModel)
        past = PastRuns(model, world.journal.store)
        for _ in range(PLACES):
            wanted = asked(chosen, chosen.randint(1, max(1, world.journal.position)))
            assert stopped(world, wanted) == every(past, wanted), (seed, wanted)
            for _ in range(3):  # the present goes on between two lists
                await world.act(chosen.choice(RUNS), chosen.choice(sorted(ACTS)), after_s=1)
            await runner.caught_up(BOUND_S)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_a_list_of_the_past_is_what_a_read_model_that_stopped_there_would_give(
    tmp_path_factory: Any, seed: int
) -> None:
    asyncio.run(lived(seed, tmp_path_factory.mktemp("past")))
