"""Strangers: how often one address may show keys that open nothing before it is told to wait.

A secret has 256 bits, so nobody finds one by trying. What trying costs is noise, and a client whose key is worth
nothing does best to come back slowly. So each address has ``key_failures`` a minute that are answered 401; what comes
beyond is answered 429 with the time until the next one. They are given back evenly, one every 60 s divided by the
limit. Whoever shows a key that opens something is let in whatever its neighbours do: behind a proxy, and on this
machine, all share one address. A request without any key guesses nothing and is not counted.

An address is an IPv4 address or the /64 network of an IPv6 one, of which a single host has all. At most
``ADDRESSES_MAX`` are remembered; beyond, the one that failed longest ago is forgotten.
"""

from collections import OrderedDict
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

WINDOW_S = 60.0
ADDRESSES_MAX = 10_000
HOST_BITS = 64
"""Leading bits of an IPv6 address that tell one host's network from another's."""


class Strangers:
    """The addresses that failed lately."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._every_s = WINDOW_S / limit
        self._free_at: OrderedDict[str, float] = OrderedDict()
        """When, on the monotonic scale, all failures of an address are given back."""

    def __len__(self) -> int:
        return len(self._free_at)

    def failed(self, address: str, mono: float) -> float:
        """How many seconds this address must wait before its next failure is heard; 0.0 while it need not."""
        free_at = max(self._free_at.pop(address, mono), mono)
        wait_s = free_at + self._every_s - WINDOW_S - mono
        if wait_s <= 0.0:
            free_at, wait_s = free_at + self._every_s, 0.0
        while len(self._free_at) >= ADDRESSES_MAX:
            self._free_at.popitem(last=False)
        self._free_at[address] = free_at
        return wait_s


def address_of(scope: Mapping[str, Any]) -> str:
    """Where a request comes from, as far as it is counted; empty when that is no network address."""
    client = scope.get("client")
    if client is None:
        return ""
    try:
        address = ip_address(client[0].partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or ip_network((address, HOST_BITS), strict=False))
    return str(address)
