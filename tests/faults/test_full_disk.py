"""The disk of a server is full for a while: nothing acknowledged is lost, and with space again it goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.owner import Owner
from tests.servers.places import SERVERS, Kind
from tests.servers.plugin import make, running
from tests.servers.server import Server

SIZES = {"redis": "12m", "postgres": "120m", "s3": "60m", "mongo": "60m"}
LEFT_BYTES = 1 << 20
"""So much is left when it gets narrow."""

SAVE_BYTES = 200_000
RESTART_S, AGAIN_S_MAX = 3.0, 60.0


@pytest.fixture(params=SERVERS, ids=repr)
def narrow(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each kind of server, on a small disk of its own."""
    kind: Kind = request.param
    folder = Path(tempfile.mkdtemp(prefix="small-"))  # not below `tmp_path`, where only we may go
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={SIZES[kind.name]},mode=777", "none", folder]
    if subprocess.run(mounted, check=False, capture_output=True).returncode:
        assert not os.environ.get("CI"), "a file system cannot be mounted"
        pytest.skip("not tested: full disks of servers (a file system cannot be mounted: needs root)")
    try:
        yield from running(lambda: make(kind.fixture, folder=folder))
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


def saved_again(owner: Owner, server: Server, number: int) -> None:
    """Saves as soon as it may. A server that gives up on its full disk, or only says no, is started by who runs it."""
    now = time.monotonic()
    restart, end = now + RESTART_S, now + AGAIN_S_MAX
    while (said := owner.do("save", "s", number)) != "saved":
        assert said.startswith("StoreFailedError"), said
        assert time.monotonic() < end, said
        if time.monotonic() > restart:
            server.kill()
            restart = end
        server.start()


def test_a_full_disk_loses_nothing_and_goes_on_with_space(narrow: Server, tmp_path: Path) -> None:
    with Owner(narrow.fresh_url() + "&busy_s=2", tmp_path / "world.txt") as owner:
        assert owner.do("open", "s")["state"] == {}
        assert owner.do("save", "s", 1, SAVE_BYTES) == "saved"
        filler = narrow.folder / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(narrow.folder).free - LEFT_BYTES))
        acknowledged = 1
        while (said := owner.do("save", "s", acknowledged + 1, SAVE_BYTES)) == "saved":
            acknowledged += 1
        assert said.startswith("StoreFailedError"), said
        filler.unlink()
        saved_again(owner, narrow, acknowledged + 2)
        assert owner.do("close", "s") == "closed"
        state = owner.do("state", "s")
        assert state["n"] == acknowledged + 2
        log = owner.do("log", "s")
        assert [seq for seq, *_ in log] == [*range(1, len(log) + 1)]
        saves = [kind for _, _, kind, _ in log].count("saved")
        assert acknowledged + 1 <= saves <= acknowledged + 2
