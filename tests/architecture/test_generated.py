"""Generated documents are what would be generated now, so that reading them is as good as reading the code."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tools import openapi
from tools.documents import GENERATED

EVERY: dict[Path, tuple[Callable[[], str], str]] = {
    **{path: (render, "make docs") for path, render in GENERATED.items()},
    openapi.DOCUMENT: (openapi.render, "make openapi"),
    openapi.TYPES: (openapi.types, "make openapi"),
}


@pytest.mark.origin("D58")
@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_a_generated_document_is_what_would_be_generated_now(path: Path) -> None:
    render, verb = EVERY[path]
    stale = render() != path.read_text()

    assert not stale, f"{path.relative_to(ROOT)} is not what would be generated now: run `{verb}`"
