"""Checksums of every Python file below a directory, in steps: after each one its place is saved as the run's partial.

    crawl.py ROOT STEP

The partial is `{"done": files, "digest": chained SHA-256}`. A fresh attempt begins where the last saved step ended,
so the digest over the whole tree comes out the same however often the crawl was interrupted.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

FENCE_LOST = 3


def chained(digest: str, root: Path, path: Path) -> str:
    """The digest after one more file."""
    link = hashlib.sha256(f"{digest}{path.relative_to(root)}".encode())
    link.update(path.read_bytes())
    return link.hexdigest()


def files_below(root: Path) -> list[Path]:
    """The files, in an order that every attempt sees alike."""
    return sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts and path.is_file())


def save(place: dict[str, object]) -> None:
    """Save the place; an attempt that has lost the run stops here."""
    saved = subprocess.run(["jackline", "partial", "save", "-"], input=json.dumps(place), text=True, check=False)
    if saved.returncode == FENCE_LOST:
        print("the run is somebody else's: stopping", flush=True)
        sys.exit(FENCE_LOST)
    saved.check_returncode()


def main() -> None:
    """Crawl from where the partial says."""
    root, step = Path(sys.argv[1]), int(sys.argv[2])
    files = files_below(root)
    place = json.loads(Path(os.environ["JACKLINE_PARTIAL"]).read_text(encoding="utf-8")) or {"done": 0, "digest": ""}
    begun_at, done, digest = place["done"], place["done"], place["digest"]
    print(f"{len(files)} files below {root}, beginning at {done}", flush=True)
    while done < len(files):
        for path in files[done : done + step]:
            digest = chained(digest, root, path)
        done = min(done + step, len(files))
        save({"done": done, "digest": digest})
        print(f"{done}/{len(files)} {digest[:12]}", flush=True)
    result = {"files": done, "digest": digest, "begun_at": begun_at}
    Path(os.environ["JACKLINE_RESULT"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
