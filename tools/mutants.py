"""Mutation testing of the domain: `make mutants`, or `make mutants MODULES="lease standing"` for some of its modules.

mutmut plants one small fault at a time into `domain/` and runs those tests of `tests/domain` that reach the changed
function; a mutant that no test notices has *survived*. What it was told is in `pyproject.toml`, its work and its
results are in `mutants/`: a run that was stopped goes on where it was, and what has survived so far is tried anew with
the tests of today. `docs/mutants.toml` says of each known survivor why it changes nothing that matters.

Prints the totals and each survivor that has no reason there; `--write` puts all of it into `docs/mutants.md`, and
`--report` only reads the results. Exit code 1 when fewer than `WANTED` of the mutants died, when a survivor has no
reason, or when a reason is left whose mutant died. Minutes of processor time: not part of the suite.
"""

import argparse
import ast
import difflib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "mutants"
TABLE = ROOT / "docs" / "mutants.toml"
DOCUMENT = ROOT / "docs" / "mutants.md"
WANTED = 0.9
"""The share of mutants that has to die."""
CHILDREN = 2
KILLED = frozenset({1, 3})
TIMED_OUT = frozenset({-24, 24, 36, 152, 255})
UNTRIED = frozenset({None, 2})
MUTANT = re.compile(r"^x(?:_|ǁ(?P<class>\w+?)ǁ)(?P<function>\w+)__mutmut_(?P<number>\d+|orig)$")
LINE_END = " / "

Key = tuple[str, str, str]
"""Where (`lease.evolve`), the lines as they are, and the lines as the mutant had them."""


@dataclass(frozen=True)
class Result:
    """What became of the mutants of one module."""

    module: str
    killed: int
    timed_out: int
    untried: int
    survivors: tuple[Key, ...]

    @property
    def tried(self) -> int:
        """How many mutants were tried."""
        return self.killed + self.timed_out + len(self.survivors)


def main() -> int:
    """Run mutmut unless only the report is wanted, and report; 1 when something is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.split("\n", 1)[0])
    parser.add_argument("modules", nargs="*", help="modules of the domain, for example: lease standing; all by default")
    parser.add_argument("--report", action="store_true", help="only read the results that are there")
    parser.add_argument("--write", action="store_true", help="write docs/mutants.md")
    options = parser.parse_args()
    unknown = [module for module in options.modules if not (ROOT / "domain" / f"{module}.py").exists()]
    if unknown:
        parser.error(f"no module of the domain is called {', '.join(unknown)}")
    if not options.report:
        _forget_tests()
        _forget_survivors(options.modules)
        names = [f"domain.{module}.*" for module in options.modules]
        subprocess.run(["nice", "-n", "15", _mutmut(), "run", "--max-children", str(CHILDREN), *names], check=True)
    found, known = results(options.modules), reasons()
    print(*_totals(found), sep="\n")
    if options.write:
        DOCUMENT.write_text(render(found, known))
    faults = judged(found, known)
    print(*faults, sep="\n")
    return 1 if faults else 0


def results(modules: list[str], work: Path = WORK) -> list[Result]:
    """What is known of the mutants of these modules (all: none named), in the order of their names."""
    return [
        _result(path)
        for path in sorted((work / "domain").glob("*.py.meta"))
        if not modules or path.name.removesuffix(".py.meta") in modules
    ]


def render(found: list[Result], known: Mapping[Key, str]) -> str:
    """The document: the totals, and every survivor with its reason."""
    lines = [
        "# Mutants",
        "",
        "Written by `make mutants ARGS=--write` from its last run and the reasons in `docs/mutants.toml`; do not edit.",
        "",
        "mutmut plants one small fault at a time into `domain/` and runs the tests of `tests/domain` that reach it.",
        "Searches by Hypothesis over histories are left out, so that every kill is by a test with a fixed example.",
        "It plants nothing in properties, formatted sentences, defaults of fields, or anything outside of a function.",
        "",
        *(f"{line}" for line in _table(found)),
    ]
    for result in found:
        if result.survivors:
            lines += [
                "",
                f"## {result.module}",
                "",
                "| in | what is there | what nobody noticed | why |",
                "| --- | --- | --- | --- |",
            ]
        for where, old, new in result.survivors:
            why = known.get((where, old, new), "")
            lines.append(f"| {where.partition('.')[2]} | {_code(old)} | {_code(new)} | {why} |")
    return "\n".join(lines) + "\n"


def _mutmut() -> str:
    return str(Path(sys.executable).with_name("mutmut"))


def _forget_tests() -> None:
    """Copies of the tests, and which of them reach what: mutmut would only learn of new ones."""
    shutil.rmtree(WORK / "tests", ignore_errors=True)
    (WORK / "mutmut-stats.json").unlink(missing_ok=True)


def _forget_survivors(modules: list[str]) -> None:
    for path in (WORK / "domain").glob("*.py.meta"):
        if modules and path.name.removesuffix(".py.meta") not in modules:
            continue
        known = json.loads(path.read_text())
        codes = known["exit_code_by_key"]
        known["exit_code_by_key"] = {name: code if code in KILLED | TIMED_OUT else None for name, code in codes.items()}
        path.write_text(json.dumps(known))


def _result(meta: Path) -> Result:
    codes: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
    module = meta.name.removesuffix(".py.meta")
    survived = {name.rpartition(".")[2] for name, code in codes.items() if code not in KILLED | TIMED_OUT | UNTRIED}
    return Result(
        module=module,
        killed=sum(code in KILLED for code in codes.values()),
        timed_out=sum(code in TIMED_OUT for code in codes.values()),
        untried=sum(code in UNTRIED for code in codes.values()),
        survivors=tuple(_changes(meta.with_suffix(""), module, survived)),
    )


def _changes(source: Path, module: str, mutants: set[str]) -> Iterator[Key]:
    text = source.read_text()
    lines = text.splitlines()
    functions = {
        node.name: [lines[node.lineno - 1].replace(node.name, "_"), *lines[node.lineno : node.end_lineno]]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    }
    for name, body in functions.items():
        if name in mutants:
            parts = MUTANT.match(name)
            assert parts is not None, name
            original = functions[name.removesuffix(parts["number"]) + "orig"]
            where = ".".join(part for part in (module, parts["class"], parts["function"]) if part)
            yield where, *_difference(original, body)


def _difference(old: list[str], new: list[str]) -> tuple[str, str]:
    marked = list(difflib.ndiff(old, new))
    return tuple(LINE_END.join(line[2:].strip() for line in marked if line[0] == sign) for sign in "-+")  # type: ignore[return-value]


def reasons(table: Path = TABLE) -> dict[Key, str]:
    """Why each known survivor changes nothing that matters."""
    known = tomllib.loads(table.read_text())
    return {
        (entry["in"], entry["from"], to): entry["why"] for entry in known.get("survivors", []) for to in entry["to"]
    }


def _table(found: list[Result]) -> list[str]:
    lines = ["| module | mutants | killed | timed out | survived | % |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, group in [*((each.module, [each]) for each in found if each.tried), ("all", found)]:
        tried, survived = sum(each.tried for each in group), sum(len(each.survivors) for each in group)
        killed, late = sum(each.killed for each in group), sum(each.timed_out for each in group)
        lines.append(f"| {name} | {tried} | {killed} | {late} | {survived} | {100 * _share(group):.1f} |")
    return lines


def _totals(found: list[Result]) -> list[str]:
    return [
        " ".join(f"{cell.strip():>18}" for cell in line.split("|")[1:-1]) for line in _table(found) if "--:" not in line
    ]


def _share(found: list[Result]) -> float:
    tried = sum(each.tried for each in found)
    return 1.0 - sum(len(each.survivors) for each in found) / tried if tried else 1.0


def judged(found: list[Result], known: Mapping[Key, str]) -> list[str]:
    """What is not as it must be: survivors without a reason, reasons without a survivor, and too few that died."""
    survivors = {key for result in found for key in result.survivors}
    complete = {result.module for result in found if not result.untried}
    stale = sorted(key for key in known.keys() - survivors if key[0].partition(".")[0] in complete)
    untried = sum(each.untried for each in found)
    return [
        *(
            f"survived, and nobody said why: {where}\n  - {old}\n  + {new}"
            for where, old, new in sorted(survivors - known.keys())
        ),
        *(f"has a reason to survive, and did not: {where}\n  + {new}" for where, _, new in stale),
        *([f"not tried yet: {untried}"] if untried else []),
        *([f"fewer than {WANTED:.0%} died"] if _share(found) < WANTED else []),
    ]


def _code(lines: str) -> str:
    return "`" + lines.replace("|", "\\|") + "`" if lines else "nothing"


if __name__ == "__main__":
    sys.exit(main())
