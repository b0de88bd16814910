"""Where the service is and which key opens it.

Both may be said outright, by `JACKLINE_URL` and `JACKLINE_KEY` (or `JACKLINE_KEY_FILE`, a file that holds the key
alone), or be found in the data dir that the service itself writes: `server.url` and `admin.key`. The data dir is
`JACKLINE_DATA_DIR`, else `~/.local/share/jackline` (`XDG_DATA_HOME` is honoured). Without any of them the service is
looked for at http://127.0.0.1:8321.

A service that is started again may listen elsewhere, and then says so in the same file. Whoever found it there reads it
again when nobody answers (`again`); a command inside a run knows the file by `JACKLINE_URL_FILE`, beside the url. A url
that somebody said outright is meant, and stays.

A key is letters, digits and a few signs between them; blanks and line ends around it are not part of it.

Failure: a file that is named but cannot be read is an error with its path; one that is only looked for may be absent.
A key that cannot be one is refused by where it came from, and never shown: it may be a good one with a slip in it.
"""

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from jackline.errors import JacklineError

DEFAULT_URL = "http://127.0.0.1:8321"
KEY = re.compile(r"[A-Za-z0-9._~+/=-]+")  # what a bearer header may carry
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Misplaced(JacklineError):
    """A url or a key that was named cannot be used."""


@dataclass(frozen=True, slots=True)
class Address:
    """A base url, and the key to present there, if there is one."""

    url: str
    key: str | None
    url_file: Path | None = None
    """The file that the service writes its url to at each start, when that is where the url is from."""

    @property
    def service(self) -> str:
        """What this service is known by from start to start: the file that says where it is, else its url."""
        return self.url if self.url_file is None else str(self.url_file.absolute())

    def again(self) -> "Address":
        """Where the service says that it is by now; the same address when nothing else can be learnt."""
        if self.url_file is None:
            return self
        try:
            url = _checked(_read(self.url_file) or self.url)
        except Misplaced:
            return self
        return self if url == self.url else replace(self, url=url)

    @property
    def loopback(self) -> bool:
        """Whether the service is on this machine, so that no proxy must see the request."""
        return urlsplit(self.url).hostname in LOOPBACK


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """The data dir when nobody names one."""
    if named := environ.get("JACKLINE_DATA_DIR"):
        return Path(named)
    base = environ.get("XDG_DATA_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".local" / "share")
    return Path(base) / "jackline"


def find(
    url: str | None = None,
    key: str | None = None,
    data_dir: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Address:
    """The address to use: what was said, else the environment, else the data dir, else the default."""
    place = data_dir or default_data_dir(environ)
    # A data dir that was named speaks for itself; one that was only assumed gives way to the environment.
    named = data_dir is not None
    said_url = url or (None if named else environ.get("JACKLINE_URL"))
    found_url = said_url or _read(place / "server.url")
    found_key = _key_said(key, "given") or (None if named else _key_of(environ)) or _key_in(place / "admin.key")
    return Address(
        _checked(found_url or environ.get("JACKLINE_URL") or DEFAULT_URL),
        found_key or _key_of(environ),
        _url_file(url, said_url, place, environ),
    )


def _url_file(url: str | None, said: str | None, place: Path, environ: Mapping[str, str]) -> Path | None:
    """The file that says where the service is by now; none for a url that was said outright."""
    if said is None:
        return place / "server.url"
    beside = environ.get("JACKLINE_URL_FILE")
    return Path(beside) if beside and url is None else None


def _key_of(environ: Mapping[str, str]) -> str | None:
    if key := _key_said(environ.get("JACKLINE_KEY"), "in JACKLINE_KEY"):
        return key
    if path := environ.get("JACKLINE_KEY_FILE"):
        try:
            return _key_said(Path(path).read_text(encoding="utf-8", errors="replace"), f"in {path}")
        except OSError as error:
            msg = f"the key file {path} cannot be read: {error.strerror}"
            raise Misplaced(msg) from error
    return None


def _key_in(path: Path) -> str | None:
    return _key_said(_read(path), f"in {path}")


def _key_said(text: str | None, where: str) -> str | None:
    """The key in a text, without what surrounds it; None when there is nothing."""
    key = (text or "").strip()
    if key and not KEY.fullmatch(key):
        msg = f"the key {where} holds a character that no key has (it is not shown here); copy it again"
        raise Misplaced(msg)
    return key or None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except FileNotFoundError:
        return None
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise Misplaced(msg) from error


def _checked(url: str) -> str:
    if not _is_url(url):
        msg = f"{url!r} is not an http or https url; say for example {DEFAULT_URL}"
        raise Misplaced(msg)
    return url.rstrip("/")


def _is_url(url: str) -> bool:
    with contextlib.suppress(ValueError, httpx.InvalidURL):
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(httpx.URL(url).host) and parts.port != 0
    return False
