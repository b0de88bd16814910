"""Submissions that are numbered, and what a client has been told of each: yes, or that nobody knows.

A number is its idempotency key, so it can be asked again at any time, and every number must be one run in the end.
"""

from collections.abc import Callable

from tests.system.calling import Caller

UNKNOWN = {"outcome_unknown", "storage_unreadable"}
MOST = 200


class Books:
    """Submissions by number, and what became of them."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.known: dict[int, str] = {}
        self.refused: set[int] = set()
        self.last = 0

    def submit(self, number: int) -> bool:
        """Whether it was acknowledged; anything but yes and unknown fails."""
        wish = {"name": f"run-{number}", "queue": "books", "payload": "x" * 200}
        answer = self.caller.post("/v1/runs", wish, idempotency=f"key-{number}")
        if answer.status == 201:
            assert self.known.setdefault(number, answer.body["run_id"]) == answer.body["run_id"]
            return True
        assert (503, True) == (answer.status, answer.code in UNKNOWN), answer
        self.refused.add(number)
        return False

    def submit_next(self) -> bool:
        """One more."""
        self.last += 1
        return self.submit(self.last)

    def submit_until(self, question: Callable[[], object]) -> None:
        """As many more as it takes; at most `MOST`."""
        for _ in range(MOST):
            self.submit_next()
            if question():
                return
        message = f"{MOST} submissions were not enough"
        raise AssertionError(message)

    def submit_without_key(self) -> bool:
        """Whether a submission that cannot be told from any other was acknowledged; it goes to a queue of its own."""
        return self.caller.post("/v1/runs", {"queue": "keyless"}).status == 201

    def settle(self) -> None:
        """Ask every number again under its key, and hold the service to one run for each."""
        before = dict(self.known)
        assert all(self.submit(number) for number in range(1, self.last + 1))
        assert before.items() <= self.known.items()
        counts = self.caller.get("/v1/queues/books").ok()
        assert (self.last, len(set(self.known.values()))) == (counts["queued"], self.last)
