"""Collecting histories from a running service and judging them, as the suite and the soak do it."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.linear.checker import Operation, Undecided, linearizable
from tests.linear.collecting import Group
from tests.linear.fences import disorder
from tests.linear.models import RunModel
from tests.system.calling import Caller
from tests.system.cutting import Cutting
from tests.system.load import POLICY, chances
from tests.system.serving import Service

CLIENTS = 3
GROUPS = 2
QUIET_TTL_S = 0.5


@dataclass(frozen=True)
class Plan:
    """How many runs each group goes through, how often each client asks about one, and how many answers are cut."""

    seed: int
    runs: int
    operations: int
    cut: float = 0.0
    quiet: bool = False


def collected(
    service: Service, plan: Plan, meanwhile: Callable[[], None] = lambda: None, *, within_s: float = 120.0
) -> list[Group]:
    """What clients were told; `meanwhile` happens to the service while they ask."""
    chance = chances(plan.seed)
    caller = service.caller()
    with Cutting(service.port, plan.seed, plan.cut) as proxy:
        groups = [_started(caller, proxy.port, plan, name, chances(chance.getrandbits(32))) for name in range(GROUPS)]
        meanwhile()
        for group in groups:
            group.finish(within_s)
    return groups


def _started(caller: Caller, port: int, plan: Plan, number: int, chance: random.Random) -> Group:
    policy = {**POLICY, "lease_ttl_s": QUIET_TTL_S} if plan.quiet else POLICY
    wish = {"queue": f"linear-{number}", "policy": policy}
    runs = [run["run_id"] for run in caller.post("/v1/runs/batch", {"runs": [wish] * plan.runs}).ok(201)["runs"]]
    group = Group(runs, plan.operations, chance, quiet=plan.quiet)
    callers = {}
    for name in [f"group-{number}-client-{client}" for client in range(CLIENTS)]:
        key = caller.post("/v1/keys", {"name": name, "role": "worker", "worker_ids": [name]}).ok(201)["key"]
        caller.put(f"/v1/workers/{name}", {"slots": 10_000}).ok()
        callers[name] = (Caller(port, key, timeout_s=20.0), Caller(port, caller.key, timeout_s=20.0))
    group.start(callers)
    return group


def unexplained(groups: list[Group], *, may_expire: bool) -> list[str]:
    """The histories that nothing explains, or that were not decided, and every disorder of fences."""
    model, found = RunModel(may_expire=may_expire), []
    for group in groups:
        for run_id, history in group.histories.items():
            try:
                if not linearizable(history, model):
                    found.append(f"no order explains what was told of {run_id}:\n{story(history, model)}")
            except Undecided as undecided:
                found.append(f"{run_id} is undecided: {undecided}")
            found += [f"{run_id}: {problem}" for problem in disorder(history)]
    return found


def story(history: Sequence[Operation], model: RunModel) -> str:
    """The shortest beginning that nothing explains, one line for each operation in the order of their calls."""
    instants = sorted(one.answered for one in history if one.answered is not None)
    low, high = 0, len(instants) - 1
    while low < high:
        middle = (low + high) // 2
        if linearizable(_until(history, instants[middle]), model):
            low = middle + 1
        else:
            high = middle
    lines = [
        f"{one.called:>7} {'' if one.answered is None else one.answered:>7}  {one.client:<18} {one.asked} -> {one.told}"
        for one in sorted(_until(history, instants[low]), key=lambda one: one.called)
    ]
    return "\n".join(lines)


def _until(history: Sequence[Operation], instant: int) -> list[Operation]:
    """What was known at an instant: calls that were answered later are unanswered."""
    known = [one for one in history if one.called <= instant]
    return [one if (one.answered or 0) <= instant else replace(one, answered=None, told=None) for one in known]


def counted(groups: list[Group]) -> Counter[str]:
    """How many operations of each kind were answered with yes or no, and how many not at all."""
    return Counter(_sort(operation) for group in groups for operation in group.told())


def _sort(operation: Operation) -> str:
    return f"{operation.asked[0]} {'unknown' if operation.told is None else operation.told[0]}"
