"""What the domain decides is what is written down: every value of every fact, and every refusal's sentence.

The pages of `tests/domain/written` are made anew by `python -m tests.domain.written`; what changes in them is read
before it is committed.
"""

import pytest

from tests.domain import written
from tests.domain.pages import PAGES

SECTIONS = [(page, section) for page, makers in PAGES.items() for section in makers]


@pytest.mark.parametrize(("page", "section"), SECTIONS)
def test_a_decision_is_the_one_that_is_written_down(page: str, section: str) -> None:
    assert written.page(page)[section].splitlines() == PAGES[page][section]().splitlines()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_every_section_and_no_other(page: str) -> None:
    assert list(PAGES[page]) == list(written.page(page))
