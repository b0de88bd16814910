"""Every generated document at once: `python -m tools.documents` writes them, and the suite compares them.

A generated document is a pure function of the code and the tests; it is committed, so that it can be read without
running anything, and a test fails when it is not the one that would be generated now.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from tools import facts, origins, verbs, zombies

GENERATED: dict[Path, Callable[[], str]] = {
    origins.DOCUMENT: origins.document,
    facts.DOCUMENT: facts.render,
    facts.SCHEMA: facts.render_schema,
    verbs.DOCUMENT: verbs.render,
    zombies.DOCUMENT: zombies.render,
}


def main() -> int:
    """Write every document; 1 when a row of the origins is unanswered."""
    for path, render in GENERATED.items():
        path.write_text(render())
    return origins.report()


if __name__ == "__main__":
    sys.exit(main())
