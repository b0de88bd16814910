"""Everything that the suite tries, for longer and with fresh chances: `make soak SOAK_S=3600`.

Each round draws a seed, which it prints first, and goes through its parts in order; each part prints its totals. A part
that fails ends the soak with exit code 1 and the command that repeats it: `make soak SEED=that PARTS=part`. No round
starts after SOAK_S seconds (600 by default, at most a day), and a given SEED is run once. SCALE (1.0) makes every part
that much longer or shorter.

How long a killed service takes to be healthy is measured here and printed; the suite never asserts a time.
"""

import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from tests.attack.fuzzing import fuzz
from tests.attack.parsers import PARSERS
from tests.faults.damage import flipped
from tests.faults.following import follow_across
from tests.faults.torn import KEPT, crash, recorded
from tests.linear.judging import CLIENTS, GROUPS, Plan, collected, counted, unexplained
from tests.system.cutting import Cutting
from tests.system.kills import Ordeal, judge, survive
from tests.system.load import Crowd, chances
from tests.system.serving import Service
from tests.waiting import until

DEFAULT_S = 600.0
LONGEST_S = 86_400.0
SEED_BITS = 32
WORLDS, WORLD_STEPS = 20_000, 100
KILLS, POINTS, FLIPS, COMMANDS, CUTS = 500, 5_000, 400, 3_000, 500
LINEAR_RUNS, LINEAR_OPERATIONS = 150, 100
FUZZED_EXAMPLES, PARSER_S = 100, 20
CUT_SHARE = 0.05
SUITES = ("tests/simulation", "tests/system", "tests/faults", "tests/linear", "tests/attack")
CHECKOUT = Path(__file__).resolve().parent.parent
SCALE = float(os.environ.get("SCALE") or 1.0)


def scaled(count: int) -> int:
    """So many, or more or fewer by SCALE; at least one."""
    return max(1, round(count * SCALE))


def _service(place: Path, name: str = "data") -> Service:
    return Service(Path(sys.executable).with_name("jackline"), place / name, retry_continuation_s=0)


def worlds(seed: int, place: Path) -> str:
    """Fresh worlds in one process, whose laws are checked after every step."""
    count = scaled(WORLDS)
    _run("-m", "simulation", "--worlds", str(count), "--steps", str(WORLD_STEPS), "--seed", str(seed))
    return f"{count} worlds of {WORLD_STEPS} steps: no law broken"


def suites(seed: int, place: Path) -> str:
    """The suite's own tests of worlds and of real processes, under this seed."""
    _run("-m", "pytest", "-q", f"--hypothesis-seed={seed}", f"--randomly-seed={seed}", *SUITES)
    return ", ".join(SUITES)


def _run(*words: str) -> None:
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "soak"}
    code = subprocess.run([sys.executable, *words], cwd=CHECKOUT, env=environment, check=False).returncode
    assert code == 0, f"{' '.join(words)} ended with {code}"


def kills(seed: int, place: Path) -> str:
    """kill -9 of a loaded service."""
    healthy: list[float] = []

    def start(service: Service) -> None:
        began = time.monotonic()
        service.start()
        healthy.append(time.monotonic() - began)

    service = _service(place)
    try:
        survived = survive(service.start(), Ordeal(scaled(KILLS), seed), start)
    finally:
        service.end()
    acknowledged = f"{len(survived.promises)} commands acknowledged over {len(survived.facts)} runs"
    return (
        f"{len(healthy)} kills, {acknowledged}: 0 lost, 0 twice; "
        f"healthy after {median(healthy):.2f} s (median), {max(healthy):.2f} s (longest)"
    )


def torn(seed: int, place: Path) -> str:
    """Power cuts rebuilt from recorded writes."""
    points = scaled(POINTS)
    before, steps = recorded(place, CHECKOUT, points // 4 + 50)
    found = crash(before, steps, min(points, len(steps)), place / "crashed", chances(seed))
    assert found["sound"] == found["states"], f"{found}"
    return f"{found['states'] // len(KEPT)} crash points x {len(KEPT)}: 0 lost, 0 corrupt, 0 gaps"


def flips(seed: int, place: Path) -> str:
    """Flipped bits in the journal of a killed and of a stopped service."""
    total: Counter[str] = Counter()
    service = _service(place)
    try:
        crowd = Crowd(service.start().port, service.key, 4, seed)
        crowd.start()
        until(lambda: crowd.promised > COMMANDS // 5, what="a journal worth damaging", within_s=120)
        service.kill()
        crowd.abandon()
        for end in ("killed", "stopped"):
            (place / end).mkdir()
            counts, silent = flipped(service.data_dir, place / end, scaled(FLIPS), chances(seed))
            assert not silent, silent
            total += counts
            if end == "killed":
                service.start().terminate()
    finally:
        service.end()
    return f"{total.total()} flips: {', '.join(f'{count} {what}' for what, count in sorted(total.items()))}, 0 silent"


def answers(seed: int, place: Path) -> str:
    """Commands whose answers are cut."""
    service, wanted = _service(place).start(), scaled(COMMANDS)
    try:
        with Cutting(service.port, seed, CUT_SHARE) as proxy:
            crowd = Crowd(proxy.port, service.key, 4, seed)
            crowd.start()
            until(lambda: crowd.promised >= wanted, what=f"{wanted} acknowledged commands", within_s=600)
            crowd.stop()
        judge(service, crowd, seed)
    finally:
        service.end()
    return f"{crowd.promised} commands, {proxy.cuts} answers cut: 0 lost, 0 twice"


def histories(seed: int, place: Path) -> str:
    """Histories of concurrent clients."""
    service, runs = _service(place).start(), scaled(LINEAR_RUNS)
    try:
        groups = collected(service, Plan(seed, runs=runs, operations=LINEAR_OPERATIONS, cut=0.03), within_s=1800)
    finally:
        service.end()
    problems = unexplained(groups, may_expire=False)
    assert not problems, "\n".join(problems)
    told = counted(groups)
    unknown = sum(count for kind, count in told.items() if kind.endswith("unknown"))
    return f"{runs * GROUPS} runs x {CLIENTS * LINEAR_OPERATIONS} operations ({unknown} unanswered): all explained"


def streams(seed: int, place: Path) -> str:
    """Streams that are cut, of a service that is killed."""
    service, cuts = _service(place).start(), scaled(CUTS)
    try:
        read = follow_across(service, seed, cuts)
    finally:
        service.end()
    return f"{cuts} cuts: {read} frames, each once and in order"


def interface(seed: int, place: Path) -> str:
    """The interface against its own document."""
    service = Service(Path(sys.executable).with_name("jackline"), place / "data", key_failures=1_000_000).start()
    try:
        document = service.caller().get("/v1/openapi.json").ok()
        found = fuzz(service, document, place / "fuzz", seed, scaled(FUZZED_EXAMPLES))
        assert found.code == 0, found.said
        assert service.caller().get("/healthz").ok()["status"] == "ok"
    finally:
        service.end()
    return f"{found.cases} cases for {found.operations} operations, {found.links} links followed: 0 failures, 0 of 5xx"


def parsers(seed: int, place: Path) -> str:
    """Each parser under a coverage-guided fuzzer, where there is one."""
    if importlib.util.find_spec("atheris") is None:
        return "not tried: atheris is not installed (pip install atheris)"
    seconds = scaled(PARSER_S)
    for name in PARSERS:
        _run("-m", "tools.fuzz", name, str(seconds), f"-seed={seed}", "-verbosity=0")
    return f"{len(PARSERS)} parsers, {seconds} s each: 0 uncaught exceptions"


PARTS: dict[str, Callable[[int, Path], str]] = {
    part.__name__: part
    for part in (worlds, suites, kills, torn, flips, answers, histories, streams, interface, parsers)
}


def main() -> int:
    """Run rounds until one fails or the time is over; 1 after a failure."""
    wanted = (os.environ.get("PARTS") or " ".join(PARTS)).split()
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        print(f"soak: no part is named {unknown[0]!r}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for number, seed in enumerate(_seeds(), start=1):
        print(f"soak: round {number}, seed {seed}", flush=True)
        for name in wanted:
            if not _held(name, seed):
                print(
                    f"soak: round {number} failed; repeat it with: make soak SEED={seed} PARTS={name}", file=sys.stderr
                )
                return 1
    return 0


def _held(name: str, seed: int) -> bool:
    """Whether a part found nothing; its totals, or what it found, are printed."""
    with tempfile.TemporaryDirectory(prefix="jackline-soak-") as place:
        try:
            totals = PARTS[name](seed, Path(place))
        except AssertionError:
            print(f"soak: {name}:\n{traceback.format_exc()}", file=sys.stderr)
            return False
    print(f"soak: {name}: {totals}", flush=True)
    return True


def _seeds() -> Iterator[int]:
    given = os.environ.get("SEED")
    if given:
        yield int(given)
        return
    over = time.monotonic() + min(float(os.environ.get("SOAK_S") or DEFAULT_S), LONGEST_S)
    chance = random.SystemRandom()
    while time.monotonic() < over:
        yield chance.getrandbits(SEED_BITS)


if __name__ == "__main__":
    sys.exit(main())
