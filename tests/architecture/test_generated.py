"""Generated documents are what would be generated now, so that reading them is as good as reading the code."""

from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tools.documents import GENERATED


@pytest.mark.origin("D58")
@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_a_generated_document_is_what_would_be_generated_now(path: Path) -> None:
    assert GENERATED[path]() == path.read_text(), f"{path.relative_to(ROOT)} is stale: run `make docs`"
