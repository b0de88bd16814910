"""Every lesson of the four systems is answered, and the document that says so is the one the tests would generate."""

from tools.origins import DOCUMENT, citations, render, rows, unanswered


def test_every_row_has_a_test_or_a_reason_or_a_capability_that_will_bring_it() -> None:
    assert [] == unanswered(rows(), citations())


def test_no_test_cites_a_row_that_does_not_exist() -> None:
    assert set() == citations().keys() - {row.id for row in rows()}


def test_the_document_is_what_would_be_generated_now() -> None:
    assert render(rows(), citations()) == DOCUMENT.read_text(), "run `make docs`"
