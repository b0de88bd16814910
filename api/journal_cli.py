"""The verbs of `jackline journal`: they open the data directory themselves, beside a running service too.

Exit codes are those of `jackline`: 0 done, 1 failed or found wrong, 2 a setting or the command line.
"""

import sys
from pathlib import Path
from typing import Any

import typer

from api.verbs import HELP_OPTIONS, DataDir, Json, fault, print_json, settings_of
from jackline.cli.exits import DONE, FAILED
from journal.errors import JournalDamaged, JournalError, NotAJournal
from journal.opening import JOURNAL_NAME, open_readonly

journal = typer.Typer(help="Verify the journal.", no_args_is_help=True, context_settings=HELP_OPTIONS)


@journal.callback()
def _journal() -> None:
    """Verify the journal."""


@journal.command("verify")
def verify_journal(data_dir: DataDir = None, json: Json = False) -> int:
    """Read and check every fact: the hash chain, the versions, the names. Exit 1 when something is wrong."""
    directory = settings_of(data_dir=data_dir).data_dir
    found = _verified(directory)
    if json:
        print_json(found)
    elif found["ok"]:
        print(f"ok: {found['facts']} facts in {directory / JOURNAL_NAME}")
    else:
        where = "" if found["first_bad_position"] is None else f" at position {found['first_bad_position']}"
        print(f"not ok: {found['problem']}{where}", file=sys.stderr)
    return DONE if found["ok"] else FAILED


def _verified(directory: Path) -> dict[str, Any]:
    try:
        application = open_readonly(directory)
    except (NotAJournal, JournalDamaged) as error:
        position = error.fields().get("position")
        return {"ok": False, "facts": 0, "first_bad_position": position, "problem": error.message}
    except JournalError as error:
        raise fault(error) from error
    try:
        verdict = application.store.verify()
    finally:
        application.close()
    return {
        "ok": verdict.ok,
        "facts": verdict.facts,
        "first_bad_position": verdict.first_bad_position,
        "problem": verdict.problem,
    }
