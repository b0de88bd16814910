"""Where a service listens when any port will do."""

import contextlib
from pathlib import Path

from api.serve import _bind
from api.settings import Settings


def test_any_port_is_the_one_of_the_last_time_as_long_as_it_is_free(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, host="127.0.0.1", port=0)
    with contextlib.closing(_bind(settings)) as first:
        port = first.getsockname()[1]
        (tmp_path / "server.url").write_text(f"http://127.0.0.1:{port}\n")
        with contextlib.closing(_bind(settings)) as beside:
            other = beside.getsockname()[1]
    with contextlib.closing(_bind(settings)) as again:
        assert (port, True) == (again.getsockname()[1], other != port)
        (tmp_path / "server.url").write_text("no url\n")
        with contextlib.closing(_bind(settings)) as unknown:
            assert unknown.getsockname()[1] != port
