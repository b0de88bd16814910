"""`jackline`: where the verbs meet.

A verb's module is imported when the command line names it, so that what a run calls a hundred times stays quick; help
and completion, and `app`, have all of them. Verbs of the server distribution are found by entry points and loaded
only when called; when it is not installed they say in one line how to install it.
"""

import os
import sys
from importlib import import_module, metadata
from typing import Any

import typer
import typer.main

from jackline.cli.exits import USAGE, Fault, complain, guarded

GROUP = "jackline.commands"
# Modules in the order in which help shows their panels; the verbs that each one joins.
MODULES = {
    "demo": ("demo",),
    "submit": ("submit",),
    "led": ("run", "attach"),
    "look": ("ls", "show", "why", "logs", "facts"),
    "history": ("timeline", "usage", "effects"),
    "steer": ("cancel", "pause", "answer", "resume", "verdict", "retry", "reassign", "extend", "abort"),
    "work": ("work",),
    "inside": ("partial", "park", "effect", "progress"),
    "crew": ("leaders", "workers"),
    "grounds": ("workspaces",),
    "admin": ("queues", "keys"),
    "diagnose": ("doctor",),
}
SERVER_VERBS = {
    "serve": "Start the service.",
    "config": "Every setting of the service: its value, unit, bound and source.",
    "projections": "List, rebuild and verify the read models.",
    "journal": "Verify the journal.",
    "watch": "Observe workspaces on Kubernetes.",
}
HELP = "Supervise long-running runs: they survive the death of the worker that executes them."
EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 usage, 3 refused, 4 no answer, 5 not found, 6 not allowed, "
    "7 still going, 10-12 effect existing, mismatch, ambiguous, "
    "20-22 run cancelled, aborted, lost, 129, 130, 143 left before the end."
)


def build(only: str | None = None) -> typer.Typer:
    """The command line: with every verb, or quickly with one."""
    app = typer.Typer(
        name="jackline",
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    known = [module for module, verbs in MODULES.items() if only in verbs]
    for module in known or MODULES:
        import_module(f"jackline.cli.{module}").join(app)
    if not known:
        _join_server_verbs(app)
    return app


def __getattr__(name: str) -> Any:
    if name == "app":
        return build()
    raise AttributeError(name)


def main() -> None:
    """The console script."""
    sys.exit(guarded(_call))


def _call() -> Any:
    words = [word for word in sys.argv[1:2] if "_JACKLINE_COMPLETE" not in os.environ]
    try:
        return build(words[0] if words else None)(standalone_mode=False)
    except Exception as error:
        # Typer's own usage errors; their classes moved between its versions, their shape did not.
        if type(error).__name__ == "Abort":
            raise KeyboardInterrupt from error
        if not hasattr(error, "format_message"):
            raise
        return _usage(error)


def _usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "jackline"
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
    else:
        complain(f"usage: {error.format_message().rstrip('.')}", f"`{where} --help` says more")
    return USAGE


def _version(wanted: bool) -> None:
    if wanted:
        print(f"jackline {metadata.version('jackline')}")
        raise typer.Exit


def _top(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Supervise long-running runs: they survive the death of the worker that executes them."""


def _join_server_verbs(app: typer.Typer) -> None:
    names = dict(SERVER_VERBS)
    for point in metadata.entry_points(group=GROUP):
        names.setdefault(point.name, f"Added by {point.dist.name if point.dist else point.value}.")
    for name, text in names.items():
        settings = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
        app.command(name, help=text, rich_help_panel="The service", context_settings=settings)(_calling(name))


def _calling(name: str) -> Any:
    def call(context: typer.Context) -> Any:
        point = next(iter(metadata.entry_points(group=GROUP, name=name)), None)
        if point is None:
            msg = f"`jackline {name}` needs the server distribution, which is not installed here"
            raise Fault(msg, "pip install jackline-server", USAGE)
        return _command_of(point.load()).main(list(context.args), prog_name=f"jackline {name}", standalone_mode=False)

    return call


def _command_of(value: Any) -> Any:
    """A click command for what an entry point names: a Typer app, or a plain function with Typer options."""
    if isinstance(value, typer.Typer):
        return typer.main.get_command(value)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(context_settings={"help_option_names": ["-h", "--help"]})(value)
    return typer.main.get_command(single)
