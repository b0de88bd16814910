"""Marks that are being judged: what follows from one is on its way into the journal, and decides what it is worth.

A mark that is renewed while its expiry is under way would be acknowledged and ignored. So whoever judges takes the mark
for as long as the append lasts, and whoever would renew it waits for the end of that, looks again, and answers from
what came of it. The mark itself stays to be seen; it is only not to be renewed.
"""


class Taken:
    """The names of what is being judged."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def take(self, name: str) -> None:
        """It is judged by its mark as it is; nobody renews it meanwhile."""
        self._names.add(name)

    def put_back(self, name: str) -> None:
        """The append has ended, or is to be decided anew: the mark is worth what it was before."""
        self._names.discard(name)
