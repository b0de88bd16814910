"""Services for tests of real faults: the ones of the system tests."""

from tests.system.conftest import make_quick_service, make_service, nursery, seed, service

__all__ = ["make_quick_service", "make_service", "nursery", "seed", "service"]
