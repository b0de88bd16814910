"""The verbs of `jackline journal`, in one group: those that read a journal, and those that make or move one.

They open the data directory themselves, beside a running service too. Those that change a journal take the directory's
lock and are refused while a service holds it.
"""

import typer

from api import journal_moving_cli as moving
from api import journal_reading_cli as reading
from api.verbs import HELP_OPTIONS

EXITS = "Exit codes: 0 done, 1 failed or found wrong, 2 a setting or the command line was not understood."

journal = typer.Typer(
    help=f"Look into the journal, verify, export, import, archive, back up and restore it.\n\n{EXITS}",
    no_args_is_help=True,
    context_settings=HELP_OPTIONS,
)

for name, verb in (
    ("stats", reading.stats),
    ("verify", reading.verify),
    ("tail", reading.tail),
    ("export", reading.export),
    ("import", moving.import_journal),
    ("archive", moving.archive),
    ("backup", moving.backup),
    ("restore", moving.restore),
):
    journal.command(name)(verb)
