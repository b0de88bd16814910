"""The order of fences on histories of any length, in O(n log n): what linearizability implies about grants and writes.

Every fence is granted once, so a history says by itself which grant a write stands on. That is enough to judge hundreds
of thousands of operations that the search could not: each fence has one owner; a higher fence was not granted before a
lower one was asked for; no write was accepted under a fence when the grant of a higher one had been answered before the
write was called; and none was accepted before its own fence was asked for, or from somebody else.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from tests.linear.checker import Operation

NEVER = 1 << 62


def disorder(
    history: Sequence[Operation], guarded: Sequence[str] = ("partial", "hand_back", "effect_claim")
) -> list[str]:
    """Everything about one run's fences that cannot be, each in one sentence; unanswered operations accuse nobody."""
    accepted = [one for one in history if one.told is not None and one.told[0] == "ok"]
    grants = sorted((one for one in accepted if one.asked[0] == "claim"), key=lambda one: one.told[1])
    fences = [one.told[1] for one in grants]
    soonest = _soonest(grants)
    writes = [one for one in accepted if one.asked[0] in guarded]
    return [*_among_grants(grants, soonest), *_among_writes(writes, grants, fences, soonest)]


def _soonest(grants: Sequence[Operation]) -> list[int]:
    """For each place in the row of grants: the earliest instant at which it or a higher one was answered."""
    soonest = [NEVER] * (len(grants) + 1)
    for place in range(len(grants) - 1, -1, -1):
        soonest[place] = min(soonest[place + 1], grants[place].answered or NEVER)
    return soonest


def _among_grants(grants: Sequence[Operation], soonest: Sequence[int]) -> Iterator[str]:
    for place, grant in enumerate(grants):
        fence = grant.told[1]
        if place + 1 < len(grants) and grants[place + 1].told[1] == fence:
            yield f"fence {fence} was granted to {grant.client} and to {grants[place + 1].client}"
        elif soonest[place + 1] < grant.called:
            yield f"fence {fence} was asked for after a higher one had been granted"


def _among_writes(
    writes: Sequence[Operation], grants: Sequence[Operation], fences: Sequence[int], soonest: Sequence[int]
) -> Iterator[str]:
    for write in writes:
        fence = write.asked[1]
        place = bisect_right(fences, fence)
        if soonest[place] < write.called:
            yield f"{write.asked} of {write.client} was accepted after a higher fence had been granted"
        if place == 0 or fences[place - 1] != fence:
            continue  # The grant's own answer was lost.
        grant = grants[place - 1]
        if grant.client != write.client:
            yield f"{write.asked} of {write.client} was accepted under a fence of {grant.client}"
        elif (write.answered or NEVER) < grant.called:
            yield f"{write.asked} of {write.client} was accepted before its fence was asked for"
