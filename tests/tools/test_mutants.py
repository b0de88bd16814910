"""The report of mutation testing: what died, what survived and why, and what is not as it must be."""

import json
from pathlib import Path

from tools import mutants

MODULE = """\
def x_double__mutmut_orig(n: int) -> int:
    \"\"\"Twice as much.\"\"\"
    return n * 2


def x_double__mutmut_1(n: int) -> int:
    \"\"\"Twice as much.\"\"\"
    return n / 2


def x_double__mutmut_2(n: int) -> int:
    \"\"\"Twice as much.\"\"\"
    return n * 3


class Lease:
    def xǁLeaseǁlive__mutmut_orig(self) -> bool:
        return True

    def xǁLeaseǁlive__mutmut_1(self) -> bool:
        return False
"""
DIED, SURVIVED, NO_TESTS, TOO_LATE = 1, 0, 33, 36
DIVIDED = ("sums.double", "return n * 2", "return n / 2")
TRIPLED = ("sums.double", "return n * 2", "return n * 3")
DEAD = ("sums.Lease.live", "return True", "return False")


def after(work: Path, *codes: int | None) -> list[mutants.Result]:
    """The results of the three mutants of a module."""
    names = ("x_double__mutmut_1", "x_double__mutmut_2", "xǁLeaseǁlive__mutmut_1")
    (work / "domain").mkdir(parents=True)
    (work / "domain" / "sums.py").write_text(MODULE)
    known = {f"domain.sums.{name}": code for name, code in zip(names, codes, strict=True)}
    (work / "domain" / "sums.py.meta").write_text(json.dumps({"exit_code_by_key": known}))
    return mutants.results([], work)


def test_a_mutant_that_no_test_reached_survived_like_one_that_no_test_noticed(tmp_path: Path) -> None:
    (result,) = after(tmp_path, DIED, SURVIVED, NO_TESTS)

    assert ((TRIPLED, DEAD), 1, 3) == (result.survivors, result.killed, result.tried)


def test_a_mutant_that_ran_out_of_time_died_and_one_that_was_not_tried_is_not_counted(
    tmp_path: Path,
) -> None:
    (result,) = after(tmp_path, TOO_LATE, None, DIED)

    assert ((), 1, 1, 1, 2) == (result.survivors, result.killed, result.timed_out, result.untried, result.tried)


def test_all_is_well_when_enough_died_and_every_survivor_has_its_reason(tmp_path: Path) -> None:
    found = after(tmp_path, DIED, DIED, DIED)

    assert [] == mutants.judged(found, {})
    assert [] == mutants.judged([*found * 4, *after(tmp_path / "more", DIED, SURVIVED, DIED)], {TRIPLED: "why not"})


def test_a_survivor_without_a_reason_is_named_with_its_lines_and_too_few_deaths_are_told(tmp_path: Path) -> None:
    found = after(tmp_path, SURVIVED, DIED, DIED)

    assert [
        "survived, and nobody said why: sums.double\n  - return n * 2\n  + return n / 2",
        "fewer than 90% died",
    ] == mutants.judged(found, {})


def test_a_reason_is_stale_once_its_mutant_dies_and_not_while_its_module_is_unfinished(tmp_path: Path) -> None:
    known = {DIVIDED: "n is always 0"}

    assert ["not tried yet: 1"] == mutants.judged(after(tmp_path, DIED, DIED, None), known)
    finished = after(tmp_path / "finished", DIED, DIED, DIED)
    assert ["has a reason to survive, and did not: sums.double\n  + return n / 2"] == mutants.judged(finished, known)


def test_one_reason_may_cover_several_mutants_of_a_line(tmp_path: Path) -> None:
    table = tmp_path / "mutants.toml"
    table.write_text(
        '[[survivors]]\nin = "sums.double"\nfrom = "return n * 2"\n'
        'to = ["return n / 2", "return n * 3"]\nwhy = "n is always 0"\n'
    )

    assert {DIVIDED: "n is always 0", TRIPLED: "n is always 0"} == mutants.reasons(table)


def test_the_document_has_the_totals_and_each_survivor_with_its_reason(tmp_path: Path) -> None:
    written = mutants.render(after(tmp_path, DIED, SURVIVED, TOO_LATE), {TRIPLED: "n is always 0"})

    assert "| sums | 3 | 1 | 1 | 1 | 66.7 |" in written.splitlines()
    assert "| all | 3 | 1 | 1 | 1 | 66.7 |" in written.splitlines()
    assert "| double | `return n * 2` | `return n * 3` | n is always 0 |" in written.splitlines()


def test_every_reason_in_the_table_is_about_lines_that_the_domain_still_has() -> None:
    for where, old, _ in mutants.reasons():
        module = (mutants.ROOT / "domain" / f"{where.partition('.')[0]}.py").read_text()
        assert all(line in module for line in old.split(mutants.LINE_END)), (where, old)
