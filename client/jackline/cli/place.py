"""The options that every verb takes, and what they lead to: a client, and a way to print.

`verb` registers a function as a command. Parameters annotated with a class of options (`Place`, `Wanted`) are spread
into their options, so that what many verbs share is written down once.
"""

import asyncio
import dataclasses
import functools
import inspect
import os
import typing
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from jackline._async.client import AsyncClient
from jackline._sync.client import Client
from jackline.address import default_data_dir, find
from jackline.cli.exits import NOT_ALLOWED, Fault
from jackline.retrying import Retry

INTERACTIVE = Retry(patience_s=3.0)

T = typing.TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Which service, opened by which key, and for whom the answer is printed."""

    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="The service's data dir: its url and key are read there. [JACKLINE_DATA_DIR]"),
    ] = None
    url: Annotated[str | None, typer.Option("--url", help="The service. [JACKLINE_URL]", show_default=False)] = None
    key: Annotated[str | None, typer.Option("--key", help="The key to it. [JACKLINE_KEY]", show_default=False)] = None
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False

    def client(self, retry: Retry = INTERACTIVE) -> Client:
        """A blocking client."""
        self._require_key()
        return Client(self.url, self.key, data_dir=self.data_dir, retry=retry)

    def async_client(self, retry: Retry = INTERACTIVE) -> AsyncClient:
        """An asynchronous client."""
        self._require_key()
        return AsyncClient(self.url, self.key, data_dir=self.data_dir, retry=retry)

    def _require_key(self) -> None:
        address = find(self.url, self.key, self.data_dir)
        if address.key is None:
            path = (self.data_dir or default_data_dir(os.environ)) / "admin.key"
            msg = f"no key for {address.url}: none in --key, JACKLINE_KEY or JACKLINE_KEY_FILE, and there is no {path}"
            raise Fault(msg, "name the service's --data-dir, or start it here: `jackline serve`", NOT_ALLOWED)


def option_classes() -> tuple[type[Any], ...]:
    """Classes whose fields are options; subclasses of `Place` and of `Options`."""
    return (Place, Options)


class Options:
    """Base of further classes of options."""


def verb(app: typer.Typer, panel: str, name: str | None = None, **settings: Any) -> Callable[[T], T]:
    """Register a function as a command of `app`, with its classes of options spread."""

    def register(function: T) -> T:
        app.command(name, rich_help_panel=panel, **settings)(_spread(typing.cast("Callable[..., Any]", function)))
        return function

    return register


def callback(app: typer.Typer, **settings: Any) -> Callable[[T], T]:
    """Register a function as what a group of commands does by itself, with its classes of options spread."""

    def register(function: T) -> T:
        app.callback(**settings)(_spread(typing.cast("Callable[..., Any]", function)))
        return function

    return register


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    return asyncio.run(main)


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in signature.parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and issubclass(kind, option_classes()):
            groups[parameter.name] = kind
            parameters += _parameters_of(kind)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def spread(**values: Any) -> Any:
        for name, kind in groups.items():
            fields = {field.name: values.pop(field.name) for field in dataclasses.fields(kind)}
            values[name] = kind(**fields)
        return function(**values)

    spread.__dict__["__signature__"] = signature.replace(parameters=parameters)
    spread.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del spread.__dict__["__wrapped__"]
    return spread


def _parameters_of(kind: type[Any]) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in dataclasses.fields(kind)
    ]
