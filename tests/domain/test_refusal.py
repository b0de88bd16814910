"""Refusals: a stable code, a sentence with the values, and the values themselves."""

import pytest

from domain.refusal import InvalidCommand, RunUnknown
from tests.domain.refusals import ours


def test_a_refusal_gives_its_values_by_name_and_in_its_sentence() -> None:
    refusal = InvalidCommand(field="slots", value=0, limit="between 1 and 10")

    assert {"field": "slots", "value": 0, "limit": "between 1 and 10"} == refusal.fields()
    assert ("slots", 0) == (refusal.field, refusal.value)
    assert "slots is 0, and must be between 1 and 10" == str(refusal)


def test_a_value_that_a_refusal_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = RunUnknown("r1").holder


def test_refusals_are_equal_when_code_and_values_are() -> None:
    assert RunUnknown("r1") == RunUnknown("r1")
    assert hash(RunUnknown("r1")) == hash(RunUnknown("r1"))
    assert RunUnknown("r1") != RunUnknown("r2")
    assert RunUnknown("r1") != "run_unknown"


def test_what_a_refusal_gives_away_cannot_change_it() -> None:
    refusal = RunUnknown("r1")
    refusal.fields()["run_id"] = "r2"

    assert "r1" == refusal.run_id


def test_every_refusal_of_the_domain_has_a_code_of_its_own_in_snake_case() -> None:
    codes = [kind.code for kind in ours()]

    assert len(codes) == len(set(codes))
    assert all(code.replace("_", "").isalpha() and code.islower() for code in codes)


def test_an_attribute_that_a_refusal_does_not_have_is_named_in_the_error() -> None:
    with pytest.raises(AttributeError, match=r"^holder$"):
        _ = RunUnknown("r1").holder


def test_refusals_with_other_values_have_another_hash() -> None:
    assert 2 == len({hash(RunUnknown("r1")), hash(RunUnknown("r2"))})
