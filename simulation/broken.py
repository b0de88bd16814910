"""A law that does not hold, and the facts that broke it."""

from collections.abc import Sequence


class LawBroken(AssertionError):
    """A law does not hold; ``law`` is its heading."""

    def __init__(self, law: str, text: str, facts: Sequence[object] = ()) -> None:
        told = "".join(f"\n    {fact!r}" for fact in facts)
        super().__init__(f"{law}: {text}{told}")
        self.law = law
