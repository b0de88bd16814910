"""kill -9 of the service under load: what was acknowledged is there after every restart, once, and in order."""

from collections import Counter

import pytest

from tests.system.conftest import Serving
from tests.system.kills import Ordeal, survive

pytestmark = [pytest.mark.system, pytest.mark.origin("C32", "D46")]


def test_forty_kills_of_a_loaded_service_lose_nothing_and_double_nothing(
    make_quick_service: Serving, seed: int
) -> None:
    service = make_quick_service(retry_continuation_s=0).start()

    survived = survive(service, Ordeal(kills=40, seed=seed))

    kinds = Counter(promise.kind for promise in survived.promises)
    assert {"submitted", "granted", "output", "partial", "intended", "completed", "succeed"} <= kinds.keys()
    assert len({promise.run_id for promise in survived.promises}) == kinds["submitted"]
