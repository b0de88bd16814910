"""The service's own verbs on the one command line: `serve` and `config`.

They join `jackline` through the entry-point group `jackline.commands`, as `journal` and `projections` do from modules
of their own.

Exit codes are those of `jackline`: 0 done, 1 failed or found wrong, 2 a setting or the command line.
"""

import os
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from api.settings import describe
from api.verbs import DataDir, Json, print_json, settings_of
from jackline.cli.exits import DONE

TABLE_COLUMNS = 140
"""How wide a terminal must be for the table of settings; on a narrower one its words would be broken."""

Host = Annotated[str | None, typer.Option(help="Where to listen. [JACKLINE_HOST]")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one. [JACKLINE_PORT]")]
Insecure = Annotated[
    bool | None, typer.Option("--insecure", help="Listen beyond loopback, keys in clear text. [JACKLINE_INSECURE]")
]


def serve(data_dir: DataDir = None, host: Host = None, port: Port = None, insecure: Insecure = None) -> int:
    """Start the service, on an embedded journal in its data dir.

    It prints `jackline ready on URL` to standard error once it answers, and where the admin key is at the first start.
    SIGTERM drains and ends it with 0.
    """
    from api.serve import run

    return run(settings_of(data_dir=data_dir, host=host, port=port, insecure=insecure))


def config(data_dir: DataDir = None, json: Json = False) -> int:
    """Every setting of the service: its value, unit, bound and source."""
    settings = settings_of(data_dir=data_dir)
    options = frozenset({"data_dir"} if data_dir is not None else ())
    rows = describe(settings, options, os.environ)
    if json:
        print_json({row["setting"]: row for row in rows})
        return DONE
    _print_settings(rows)
    return DONE


def _print_settings(rows: list[dict[str, str]]) -> None:
    """A table where there is room for one; elsewhere a line for each setting, and its meaning below."""
    console = Console(highlight=False)
    if console.width >= TABLE_COLUMNS:
        table = Table(box=None, header_style="bold")
        for column in ("setting", "value", "unit", "bounds", "source", "meaning"):
            table.add_column(column, overflow="fold", no_wrap=column == "setting")
        for row in rows:
            table.add_row(*row.values())
        console.print(table)
        return
    for row in rows:
        value = " ".join(filter(None, (row["value"], row["unit"])))
        console.print(Text.assemble((row["setting"], "bold"), f" = {value}  ({row['source']}; {row['bounds']})"))
        console.print(Padding(Text(row["meaning"]), (0, 0, 0, 4)))
