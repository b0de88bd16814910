"""Raw sockets on which anything may be said, and what the kernel knows of the process on the other side."""

import base64
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.system.calling import HOST
from tests.system.serving import Service

MIB = 1024 * 1024
MASK = b"\0\0\0\0"


@contextmanager
def raw(service: Service, *, timeout_s: float = 20.0) -> Iterator[socket.socket]:
    """A connection on which anything may be said."""
    with socket.create_connection((HOST, service.port), timeout=timeout_s) as connection:
        yield connection


def head(service: Service, request: str, *lines: str) -> bytes:
    """The head of a request that is let in."""
    first = (f"{request} HTTP/1.1", f"Host: {HOST}", f"Authorization: Bearer {service.key}")
    return "\r\n".join((*first, *lines, "", "")).encode()


@contextmanager
def upgraded(service: Service, path: str) -> Iterator[socket.socket]:
    """A WebSocket after its handshake, without anybody who keeps to the protocol."""
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13")
    with raw(service) as connection:
        connection.sendall(head(service, f"GET {path}", *upgrade))
        said = b""
        while b"\r\n\r\n" not in said:
            said += connection.recv(1)
        assert said.startswith(b"HTTP/1.1 101 "), said
        yield connection


def frame(opcode: int, data: bytes, *, last: bool = True, announced: int | None = None) -> bytes:
    """One masked frame of a client; its length may be announced as another than it is."""
    size = len(data) if announced is None else announced
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65_536:
        length = bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return bytes([(0x80 if last else 0) | opcode]) + length + MASK + data


def poured(connection: socket.socket, block: bytes, most_mib: int) -> int:
    """How many MiB of this block, again and again, were taken before the other side had enough."""
    sent = 0
    with suppress(OSError):
        while sent < most_mib * MIB:
            connection.sendall(block)
            sent += len(block)
    return sent // MIB


def heard(connection: socket.socket, most: int = 16 * MIB) -> bytes:
    """Everything that is said until the other side closes, as far as that."""
    said = b""
    with suppress(OSError):
        while len(said) < most and (part := connection.recv(65_536)):
            said += part
    return said


def descriptors(service: Service) -> int:
    """How many files and sockets the process has open."""
    return len(os.listdir(f"/proc/{service.pid}/fd"))


def resident_mb(service: Service) -> float:
    """How much memory the process has now, in MiB."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{service.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found.group(1)) / 1024
