"""The interface as documents: `python -m tools.openapi` writes docs/openapi.json and the TypeScript types.

Both are pure functions of the routes and their models; nothing is served and no journal is opened. Keys keep the
order in which the routes are declared, so that a change in one route is a change in one place of the file.
"""

import json
from pathlib import Path

from api.openapi import document
from tools import typescript

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "openapi.json"
TYPES = ROOT / "client" / "typescript" / "jackline.ts"


def render() -> str:
    """The OpenAPI document as it would be written now."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def types() -> str:
    """The TypeScript types as they would be written now."""
    return typescript.render(document())


def main() -> None:
    """Write both."""
    DOCUMENT.write_text(render())
    TYPES.parent.mkdir(exist_ok=True)
    TYPES.write_text(types())


if __name__ == "__main__":
    main()
