"""A session like an agent's: it causes one side effect, thinks, asks a question, and ends with the answer.

    session.py OUTBOX THINK_S

The side effect is a line appended to the file OUTBOX, which is outside the run: the effect ledger is what keeps a
second attempt from appending it again. The question is asked by parking the run; the next attempt finds the answer.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

EXISTING, FENCE_LOST = 10, 3
QUESTION = "May the release go out?"


def jackline(*words: str) -> int:
    """The exit code of one word to Jackline; an attempt that has lost the run stops here."""
    code = subprocess.run(["jackline", *words], stdout=subprocess.DEVNULL, check=False).returncode
    if code == FENCE_LOST:
        print("the run is somebody else's: stopping", flush=True)
        sys.exit(FENCE_LOST)
    return code


def announce(outbox: Path) -> None:
    """Append the line, once over all attempts."""
    line = f"announced by run {os.environ['JACKLINE_RUN_ID']}\n"
    told = jackline("effect", "claim", "announce", "--payload", json.dumps({"outbox": str(outbox), "line": line}))
    if told == EXISTING:
        print("announced before: not again", flush=True)
        return
    if told != 0:
        sys.exit(told)
    with outbox.open("a", encoding="utf-8") as file:
        file.write(line)
    jackline("effect", "complete", "announce", "--outcome", json.dumps({"bytes": len(line)}))
    print("announced", flush=True)


def main() -> None:
    """One attempt."""
    outbox, think_s = Path(sys.argv[1]), float(sys.argv[2])
    answers = json.loads(Path(os.environ["JACKLINE_ANSWERS"]).read_text(encoding="utf-8"))
    jackline("progress", f"attempt {os.environ['JACKLINE_ATTEMPT']} begins")
    announce(outbox)
    if not answers:
        if os.environ["JACKLINE_ATTEMPT"] == "1":
            time.sleep(think_s)
        jackline("park", "--question", json.dumps(QUESTION))
        return
    result = {"question": answers[-1]["question"], "answer": answers[-1]["answer"]}
    print(f"told {result['answer']!r}", flush=True)
    Path(os.environ["JACKLINE_RESULT"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
