"""A small world for the journal's tests: accounts, their facts and fold, a clock and ids that are moved by hand.

It has nothing to do with runs on purpose: what the journal promises, it promises for any facts.
"""

import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from domain.values import NULL, Fact, Json, Moment, Value
from journal.application import MemoryJournal, SQLiteJournal
from journal.commit import Context, Decision, Done, Entry, Journal
from journal.mapper import Codec, Meta
from journal.opening import open_sqlite
from journal.pending import Batch, Command, Pending
from journal.registers import Write
from journal.topics import Fold, Topics

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class AccountOpened(Fact, frozen=True, kw_only=True):
    """Somebody has an account."""

    owner: str


class Deposited(Fact, frozen=True, kw_only=True):
    """An amount was added."""

    amount: int
    note: Json = NULL


class Account(Value, frozen=True, kw_only=True):
    """The fold."""

    version: int = 0
    owner: str = ""
    balance: int = 0


def evolve(account: Account, fact: AccountOpened | Deposited) -> Account:
    """The account after one fact."""
    version = account.version + 1
    if isinstance(fact, AccountOpened):
        return Account(version=version, owner=fact.owner, balance=account.balance)
    return Account(version=version, owner=account.owner, balance=account.balance + fact.amount)


CODEC = Codec(Topics({"account.opened.v1": AccountOpened, "account.deposited.v1": Deposited}))
FOLDS = {"account": Fold(Account(), evolve)}
CALLER = Context("acme", "leader:ada")


def minting() -> Callable[[], str]:
    """Ids in a row: id-1, id-2, ..."""
    numbers = itertools.count(1)
    return lambda: f"id-{next(numbers)}"


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = Moment(NOON, 0.0)

    def __call__(self) -> Moment:
        return self.now

    def move(self, seconds: float) -> None:
        self.now = Moment(self.now.wall + timedelta(seconds=seconds), self.now.mono + seconds)


def application(kind: str, place: Path) -> SQLiteJournal | MemoryJournal:
    """An open application of either kind."""
    mint = minting()
    return open_sqlite(place, CODEC, mint) if kind == "sqlite" else MemoryJournal(CODEC, mint(), mint())


def started(kind: str, place: Path) -> Journal:
    """A journal of either kind, started in the running loop."""
    journal = Journal(application(kind, place), HandClock(), minting(), FOLDS)
    journal.start()
    return journal


def stored(
    stream: str, version: int, amount: int = 1, *, correlation: str | None = "c", command_id: str | None = None
) -> tuple[Any, ...]:
    """A deposit as it goes into a batch."""
    meta = Meta(f"{stream}@{version}", NOON, correlation_id=correlation, command_id=command_id)
    state = CODEC.encode(meta, Deposited(amount=amount))
    return stream, version, "account.deposited.v1", state, correlation


def deciding(*rows: tuple[Any, ...], **rest: Any) -> Pending:
    """A decision of these facts; guards are the versions before the first of each stream unless given."""
    guards: dict[str, int] = {}
    for stream, version, *_ in rows:
        guards.setdefault(stream, version - 1)
    facts = [(Deposited(amount=1), Meta(f"{row[0]}@{row[1]}", NOON)) for row in rows]
    return Pending(list(rows), facts, guards=rest.pop("guards", guards), **rest)


def append(store: Any, *pendings: Pending) -> None:
    """Append these in one batch, as they are."""
    store.append(Batch.of(pendings, store.tail))


def answered(command_id: str, answer: bytes = b"{}", request: str | None = "digest") -> Command:
    """An answer to be remembered."""
    return Command(command_id, request, answer)


def deposit(journal: Journal, stream: str, amount: int = 1, writes: Sequence[Write] = ()) -> Callable[[Moment], Any]:
    """A decision that adds an amount to one account, and answers the new balance."""

    def decide(_: Moment) -> Decision[int]:
        account = journal.streams.load(stream)
        entry = Entry(stream, Deposited(amount=amount), stream)
        return Decision([entry], {stream: account.version}, account.balance + amount, writes)

    return decide


async def execute(
    journal: Journal, decide: Callable[[Moment], Any], *, locks: Sequence[str] = (), context: Context = CALLER
) -> Done[Any]:
    """Execute a decision whose answer is an integer."""
    return await journal.execute(locks, decide, context, encode=lambda answer: b"%d" % answer, decode=int)


def command(command_id: str, request: str = "digest") -> Context:
    """The context of a command with an idempotency key."""
    return Context("acme", "leader:ada", command_id=command_id, request_digest=request)


def facts_in(journal: Journal) -> list[tuple[int, str, int]]:
    """Position, stream and version of everything stored."""
    return [(fact.position, fact.stream, fact.version) for fact in journal.store.facts_after(0, 10_000)]
