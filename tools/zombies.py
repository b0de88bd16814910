"""The zombie matrix as a table in docs/testing.md: every guarded write, and every way to lose the right to it.

The cells are those that the suite compares with the service (`tests.commands.zombies`); this sets them in columns.
A cell that most of its row shares is said once, so that what differs stands out.
"""

from collections import Counter
from pathlib import Path

from tests.commands.zombies import MATRIX, SITUATIONS, WRITES

DOCUMENT = Path("docs/testing.md")
BEGIN, END = "<!-- zombie matrix: generated -->", "<!-- end of the zombie matrix -->"


def render() -> str:
    """The document with its table made anew."""
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def table() -> str:
    """One line for each situation: what happened, what every write is told, and which are told otherwise."""
    lines = ["| what happened | every write is told | but |", "| --- | --- | --- |"]
    for name, row in MATRIX.items():
        usual, _ = Counter(row.values()).most_common(1)[0]
        others = ", ".join(f"{write}: `{row[write]}`" for write in WRITES if row[write] != usual)
        happened = (SITUATIONS[name].__doc__ or name).strip().rstrip(".")
        lines.append(f"| {name.replace('_', ' ')}: {happened[0].lower()}{happened[1:]} | `{usual}` | {others or '-'} |")
    return "\n".join(lines)
