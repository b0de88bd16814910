"""One noun, one meaning: the words of the glossary, and none of the synonyms that other systems use for them.

A synonym is found in the names that we choose ourselves (modules, classes, functions, parameters, variables, fields)
and in the prose of the documents. Names that belong to a library or a protocol are theirs, not ours: calling
`asyncio.create_task` or `threading.Event` is no offence, calling a run a task is.
"""

import ast
import re
from collections.abc import Iterator

from tests.architecture.sources import EVERYTHING, ROOT, modules

GLOSSARY = ROOT / "docs" / "glossary.md"
WORDS = (
    "run", "attempt", "turn", "leader", "connection", "presence", "grace", "worker", "lease", "fence", "reservation",
    "slot", "slice", "workspace", "incarnation", "continuity", "effect", "activity", "verdict", "partial", "parked",
    "settle", "journal", "fact", "position", "tenant", "principal", "role",
)  # fmt: skip
SYNONYMS = {
    "job": "run", "jobs": "run", "task": "run", "tasks": "run", "event": "fact", "events": "fact", "term": "fence",
    "generation": "fence",
}  # fmt: skip
# Parts of names that a library or a protocol chose: its stored events and its recorder's methods.
THEIRS = re.compile(
    r"(stored|domain|insert|select|insert_stored)_events?|events_table|create_task|StoredEvents?|DomainEvents?"
)
# Modules that speak to a library or in a protocol whose own word is `event`, and to nobody else.
BORDERS = ("journal/mapper.py", "journal/store.py", "journal/memory.py", "/sse.py", "/streams.py")
PROSE_THEIRS = re.compile(
    r"`[^`]*`|event[- ]sourc\w+|event[- ]loop|server-sent events?|eventsourcing|in terms of|asyncio task",
    re.IGNORECASE,
)
# These documents have to name the synonyms in order to forbid or to translate them.
ABOUT_WORDS = {"docs/glossary.md"}


def test_every_word_of_the_domain_is_explained() -> None:
    explained = re.findall(r"^\| \*\*([a-z]+)\*\* \|", GLOSSARY.read_text(), re.MULTILINE)

    assert set() == set(WORDS) - set(explained)


def test_no_name_in_the_code_is_a_synonym() -> None:
    synonyms = [
        f"{module.at(node)} {name}: say {SYNONYMS[word]}"
        for module in modules(*EVERYTHING)
        if not module.path.endswith(BORDERS)
        for node, name in _chosen(module.tree)
        for word in _words(THEIRS.sub("", name))
        if word in SYNONYMS
    ]

    assert [] == synonyms


def test_no_document_uses_a_synonym() -> None:
    synonyms = [
        f"{path.relative_to(ROOT)}:{number} {word}: say {SYNONYMS[word]}"
        for path in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
        if path.relative_to(ROOT).as_posix() not in ABOUT_WORDS
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for word in re.findall(r"[a-z]+", PROSE_THEIRS.sub("", line).lower())
        if word in SYNONYMS
    ]

    assert [] == synonyms


def _chosen(tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """The names that this module gives to something, each with the place where it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node, node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, node.name
            arguments = node.args
            yield from ((node, argument.arg) for argument in arguments.posonlyargs + arguments.args)
            yield from ((node, argument.arg) for argument in arguments.kwonlyargs)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id


def _words(name: str) -> list[str]:
    """The words of a name in either case style: `LeaseGranted` and `lease_granted` give the same."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
