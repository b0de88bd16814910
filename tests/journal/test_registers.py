"""The cache before the registers: what it remembers, what it forgets, and that it never runs ahead of storage."""

from typing import Any

import pytest

from domain.values import Json
from journal.registers import Chunk, ChunkWrite, OutputMark, PartialRow, PartialWrite, RegisterMaps, Registers


class Counted(RegisterMaps):
    """Registers in memory that count how often they are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def output_mark(self, run_id: str, fence: int) -> OutputMark:
        self.asked.append(f"mark {run_id}/{fence}")
        return super().output_mark(run_id, fence)

    def partial(self, run_id: str) -> PartialRow | None:
        self.asked.append(f"partial {run_id}")
        return super().partial(run_id)

    def has_chunk(self, run_id: str, fence: int, seq: int) -> bool:
        self.asked.append(f"chunk {run_id}/{fence}/{seq}")
        return super().has_chunk(run_id, fence, seq)


@pytest.fixture
def tables() -> Counted:
    return Counted()


def chunk(seq: int, fence: int = 1, run_id: str = "r") -> ChunkWrite:
    return ChunkWrite(run_id, fence, seq, "stdout", "é", f"digest-{seq}")


def partial(body: str, fence: int = 1) -> PartialWrite:
    return PartialWrite("r", fence, Json(body.encode()))


def record(tables: RegisterMaps, registers: Registers, *writes: Any) -> None:
    tables.write(writes)
    registers.apply(writes)


def test_a_mark_is_asked_for_once_and_moves_on_with_what_is_recorded(tables: Counted) -> None:
    registers = Registers(tables)
    assert OutputMark() == registers.output_mark("r", 1)

    record(tables, registers, chunk(0), chunk(2), chunk(1))

    assert OutputMark(3, 6, "digest-1", 2) == registers.output_mark("r", 1)
    assert ["mark r/1"] == tables.asked


def test_a_chunk_beyond_the_last_is_known_to_be_new_without_asking(tables: Counted) -> None:
    registers = Registers(tables)
    registers.output_mark("r", 1)
    record(tables, registers, chunk(0), chunk(5))
    tables.asked.clear()

    assert [False, True, False] == [registers.seen("r", 1, seq) for seq in (6, 5, 3)]
    assert ["chunk r/1/5", "chunk r/1/3"] == tables.asked


def test_a_partial_is_asked_for_once_even_if_there_is_none(tables: Counted) -> None:
    registers = Registers(tables)
    assert [None, None] == [registers.partial("r") for _ in range(2)]

    record(tables, registers, partial("1"), partial("2"))
    record(tables, registers, partial("3", fence=2), partial("4", fence=1))

    found = registers.partial("r")
    assert found is not None
    assert (2, b"3", 1) == (found.fence, bytes(found.body), found.saved)
    assert ["partial r"] == tables.asked


def test_saving_again_under_one_fence_is_counted(tables: Counted) -> None:
    registers = Registers(tables)
    registers.fresh("r")

    record(tables, registers, partial("1"), partial("2"))

    assert (2, []) == (getattr(registers.partial("r"), "saved", 0), tables.asked)


def test_a_new_run_is_known_to_have_no_partial(tables: Counted) -> None:
    registers = Registers(tables)

    registers.fresh("r")

    assert (None, []) == (registers.partial("r"), tables.asked)


@pytest.mark.parametrize("how", ["forget", "evict"])
def test_what_was_forgotten_is_asked_for_again(tables: Counted, how: str) -> None:
    registers = Registers(tables)
    registers.output_mark("r", 1)
    registers.partial("r")
    tables.write([chunk(0), partial("1")])

    if how == "forget":
        registers.forget("r")
    else:
        registers.evict([chunk(0), partial("1")])

    assert (1, 1) == (registers.output_mark("r", 1).chunks, getattr(registers.partial("r"), "saved", 0))


def test_what_nobody_asked_for_is_not_remembered(tables: Counted) -> None:
    registers = Registers(tables)

    record(tables, registers, chunk(0), partial("1"))

    assert (1, 1) == (registers.output_mark("r", 1).chunks, getattr(registers.partial("r"), "saved", 0))
    assert ["mark r/1", "partial r"] == tables.asked


def test_the_longest_unused_runs_are_asked_for_again(tables: Counted) -> None:
    registers = Registers(tables, cached_runs=2)
    for run_id in ("a", "b", "c"):
        registers.partial(run_id)
        registers.output_mark(run_id, 1)
    tables.asked.clear()

    for run_id in ("c", "b", "a"):
        registers.partial(run_id)
        registers.output_mark(run_id, 1)

    assert ["partial a", "mark a/1"] == tables.asked


def test_marks_of_several_fences_of_a_run_are_told_apart(tables: Counted) -> None:
    registers = Registers(tables)
    assert [0, 0] == [registers.output_mark("r", fence).chunks for fence in (1, 2)]

    record(tables, registers, chunk(0, fence=2))

    assert [0, 1] == [registers.output_mark("r", fence).chunks for fence in (1, 2)]
    assert [Chunk(2, 0, "stdout", "é")] == registers.chunks("r", None, 10)
