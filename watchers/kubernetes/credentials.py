"""Where the API server is, and what is presented to it.

In a cluster everything is in the pod: the address in the environment, the certificate and the token in files that the
kubelet keeps current; the token is read again when it is older than `REREAD_S`, and at once after a 401. Nothing but
the standard library is needed for that. Outside, a kubeconfig says it, with contexts, certificates, exec plugins and
token refreshes of its own: these are read by the official client (the extra `kubernetes` of this distribution),
because they are many, change, and are about somebody's security.

A certificate is loaded when the watch starts; a token may change at any time.

Failure: `NoAccess`, with what is missing and what would help.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

import httpx

from jackline.clock import Clock

REREAD_S: Final = 30.0
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoAccess(Exception):
    """The API server cannot be asked from here."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return self.message


class Presented(Protocol):
    """Whatever is sent along to say who asks."""

    async def headers(self, *, renew: bool) -> dict[str, str]:
        """The headers to send; fresh ones after the last were not accepted."""


@dataclass(frozen=True, slots=True)
class Access:
    """An API server's address, how it proves itself, and who we are."""

    server: str
    verify: ssl.SSLContext | bool
    presented: Presented
    namespace: str | None = None
    proxy: str | None = None
    server_name: str | None = None
    """The name that the server's certificate is for, where it is not the address's."""

    async def headers(self, *, renew: bool) -> dict[str, str]:
        """The headers that say who asks."""
        return await self.presented.headers(renew=renew)


class Nobody:
    """Nothing is presented: a proxy on this machine, or a certificate, says who we are."""

    async def headers(self, *, renew: bool) -> dict[str, str]:
        """None."""
        return {}


class TokenFile:
    """A token in a file that somebody else keeps current."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at: float | None = None

    async def headers(self, *, renew: bool) -> dict[str, str]:
        """The token as it is in the file, read at most `REREAD_S` ago; the last one while the file cannot be read."""
        now = self._clock.now()
        if renew or self._read_at is None or now - self._read_at >= REREAD_S:
            try:
                self._token = self._path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                pass  # the kubelet swaps the file; what was read before may still be good, and a 401 says if not
            else:
                self._read_at = now
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


class Kubeconfig:
    """What the official client makes of a kubeconfig: a plain token, or one that an exec plugin gives out."""

    def __init__(self, path: str | None, context: str | None) -> None:
        self._path = path
        self._context = context
        self.settings = self._load()

    def _load(self) -> Any:
        config = _official("kubernetes.config")
        settings = _official("kubernetes.client").Configuration()
        try:
            config.load_kube_config(self._path, self._context, client_configuration=settings)
        except Exception as error:
            where = self._path or os.environ.get("KUBECONFIG") or "~/.kube/config"
            msg = f"the kubeconfig {where} cannot be used: {str(error).rstrip('.')}"
            raise NoAccess(msg, "`kubectl config get-contexts` shows what there is") from error
        try:
            httpx.URL(str(settings.host))
        except httpx.InvalidURL as error:
            msg = f"the kubeconfig names a server that is no url: {error}"
            raise NoAccess(msg, "`kubectl config view` shows where it points") from error
        return settings

    async def headers(self, *, renew: bool) -> dict[str, str]:
        """The token that is due now: plugins are asked again when theirs has expired, or was not accepted."""
        if renew:
            self.settings = await asyncio.to_thread(self._load)
        auth = await asyncio.to_thread(self.settings.auth_settings)
        return {one["key"]: one["value"] for one in auth.values() if one["in"] == "header" and one["value"]}


def in_cluster(environ: Mapping[str, str], clock: Clock, account: Path = SERVICE_ACCOUNT) -> Access | None:
    """The access that a pod has; None outside of one."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (account / "token").exists():
        return None
    try:
        context = ssl.create_default_context(cafile=str(account / "ca.crt"))
    except (OSError, ssl.SSLError) as error:
        msg = f"the cluster's certificate {account / 'ca.crt'} cannot be used: {error}"
        raise NoAccess(msg, "is the service account's token mounted whole?") from error
    namespace = _text(account / "namespace")
    where = f"[{host}]" if ":" in host else host
    return Access(f"https://{where}:{port}", context, TokenFile(account / "token", clock), namespace)


def from_kubeconfig(path: str | None, context: str | None) -> Access:
    """The access that a kubeconfig gives: the named one, else `KUBECONFIG`, else `~/.kube/config`."""
    presented = Kubeconfig(path, context)
    settings = presented.settings
    return Access(
        str(settings.host),
        _verify(settings),
        presented,
        _namespace_of(path, context),
        proxy=settings.proxy or None,
        server_name=settings.tls_server_name or None,
    )


def find_access(kubeconfig: str | None, context: str | None, clock: Clock) -> Access:
    """The access to use: a kubeconfig that is named, else the pod's own, else the kubeconfig that kubectl would use."""
    if kubeconfig is None and context is None:
        inside = in_cluster(os.environ, clock)
        if inside is not None:
            return inside
    return from_kubeconfig(kubeconfig, context)


def _verify(settings: Any) -> ssl.SSLContext | bool:
    if not str(settings.host).startswith("https:"):
        return False
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context


def _namespace_of(path: str | None, context: str | None) -> str | None:
    """The namespace of the context, where it names one."""
    contexts, active = _official("kubernetes.config").list_kube_config_contexts(path)
    found = next((one for one in contexts if one["name"] == context), active) if context else active
    namespace = (found or {}).get("context", {}).get("namespace")
    return str(namespace) if namespace else None


def _official(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        msg = "a kubeconfig needs the official Kubernetes client, which is not installed here"
        raise NoAccess(msg, "pip install 'jackline-server[kubernetes]'; inside a cluster it is not needed") from error


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None
