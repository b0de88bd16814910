"""A build: copies a real package and byte-compiles it; the first attempt finds a half-written module in it and fails.

build.py PACKAGE_DIR
"""

import compileall
import json
import os
import shutil
import sys
from pathlib import Path

HALF_WRITTEN = "def unfinished(:\n"


def main() -> None:
    """Build, or exit 1 with the compiler's complaint."""
    source, target = Path(sys.argv[1]), Path("build")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    if os.environ["JACKLINE_ATTEMPT"] == "1":
        (target / "half_written.py").write_text(HALF_WRITTEN, encoding="utf-8")
    good = compileall.compile_dir(str(target), quiet=1, force=True)
    compiled = len(list(target.rglob("*.pyc")))
    print(f"{compiled} modules of {source.name} compiled", flush=True)
    if not good:
        sys.exit(1)
    Path(os.environ["JACKLINE_RESULT"]).write_text(json.dumps({"compiled": compiled}), encoding="utf-8")


if __name__ == "__main__":
    main()
