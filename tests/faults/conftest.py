"""Services for tests of real faults: the ones of the system tests."""

from tests.system.conftest import make_service, seed, service

__all__ = ["make_service", "seed", "service"]
