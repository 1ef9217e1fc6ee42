"""Makes the golden stores of the newest format: `python -m tests.golden.make`. What is kept is never made again.

They are whole stores (SQLite, files), exported sessions and snapshots in every protocol, sealed and in clear, with what
is expected of them beside them. `test_stores.py` loads them, for ever. A new format version gets a folder of its own; a
new kind of thing gets a line in `MADE`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import values
from perdure.log.action import Actions
from perdure.ops import beginning
from perdure.runtime import editing, operator
from perdure.runtime.store import AgentStore
from perdure.session.keeping.keyframer import Keyframer
from tests.golden import subjects, versions
from tests.golden.subjects import KEYS, OWNER, SESSIONS, SUBJECT

VERSION = "v1"
FOLDER = Path(__file__).parent
SUMS = "SHA256SUMS"
EXPECTED = "expected.json"
GROWING = ("*.hex", EXPECTED, SUMS)
"""Files that get more lines; what is in them is looked at line by line."""

_STAMP = (2026, 1, 1, 0, 0, 0)
_LEFT_OUT = frozenset({"tick"})
"""Says when a machine was started; made anew where it is missing."""


@contextmanager
def steady() -> Iterator[None]:
    """Within it, what is made tells of no machine, and has keyframes early."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Keyframer.__init__.__kwdefaults__, "every", 3)
        for module in (editing, operator, beginning):
            patch.setattr(module, "new_owner", lambda: OWNER)
        yield


def opened(url: str, *, protocol: str = values.DEFAULT, sealed: bool = False, witness: str | None = None) -> AgentStore:
    """A store of the golden owner."""
    store = perdure.open(url, protocol=protocol, keys=KEYS if sealed else None, witness=witness)
    store.__dict__["_owner"] = OWNER
    return store


def protocols(*, sealed: bool) -> list[str]:
    """Those that can be written so."""
    return [name for name in values.PROTOCOLS if sealed or name != values.PICKLE]


def reading(*, sealed: bool) -> str:
    """What a store is opened with that is to read every protocol: pickle is read only by who asks for it."""
    return values.PICKLE if sealed else values.DEFAULT


def facts_of(store: AgentStore, session: str) -> dict[str, Any]:
    """What is expected of a session: digests of all of its log, of its actions, and of each of its states."""
    entries = list(store.log(session))
    log = [[entry.seq, entry.epoch, entry.kind, entry.time_us, entry.body] for entry in entries]
    actions = [[a.seq, a.name, a.effect, a.known.how if a.known else ""] for a in Actions(entries).values()]
    return {
        "records": len(entries),
        "log": digest(log),
        "journal": digest(actions),
        "states": {str(point.seq): digest(store.state_at(session, point.seq)) for point in store.snapshots(session)},
    }


def digest(value: Any) -> str:
    """What stands for a value here."""
    return sha256(values.encode(value)).hexdigest()[:20]


# --- what is made -----------------------------------------------------------------------------------------------------


def store_of(scheme: str, *names: str, sealed: bool) -> Callable[[Path], dict[str, Any]]:
    """A whole store as a zip of its files, SQLite with a witness: the sessions of `subjects`, one per protocol."""

    def make(path: Path) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            url, witness = f"{scheme}:{folder}/store", f"{folder}/witness" if scheme == "sqlite" else None
            for protocol in names:
                with opened(url, protocol=protocol, sealed=sealed, witness=witness) as store:
                    subjects.fill(store, f"{SUBJECT}/{protocol}")
            with opened(url, sealed=sealed, witness=witness) as store:
                subjects.fill_others(store, f"{SUBJECT}/{names[0]}")
            with opened(url, protocol=reading(sealed=sealed), sealed=sealed, witness=witness) as store:
                sessions = [f"{SUBJECT}/{name}" for name in names] + list(SESSIONS)
                found = {session: facts_of(store, session) for session in sessions}
            _zip(Path(folder), path)
        return found

    return make


def _zip(folder: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name not in _LEFT_OUT:
                out.writestr(zipfile.ZipInfo(file.relative_to(folder).as_posix(), _STAMP), file.read_bytes(), 8)


def export_of(protocol: str, *, sealed: bool) -> Callable[[Path], dict[str, Any]]:
    """An exported session."""

    def make(path: Path) -> dict[str, Any]:
        with opened("memory:", protocol=protocol, sealed=sealed) as store:
            subjects.fill(store, SUBJECT)
            store.export_file(SUBJECT, path)
            return {SUBJECT: facts_of(store, SUBJECT)}

    return make


def snapshot_of(protocol: str, *, sealed: bool) -> Callable[[Path], dict[str, Any]]:
    """A snapshot of the steps."""

    def make(path: Path) -> dict[str, Any]:
        with opened("memory:", sealed=sealed) as store:
            subjects.fill_steps(store, "golden/steps")
            taken = store.export_snapshot("golden/steps", path, protocol=protocol)
            return {
                "id": taken.snapshot_id,
                "checksum": taken.metadata.checksum,
                "state": digest(taken.state),
                "document": digest(taken.document()),
            }

    return make


def migrated(path: Path) -> dict[str, Any]:
    """A session whose state was of several versions, and changed by hand."""
    with opened("memory:") as store:
        versions.fill(store)
        store.export_file(versions.SUBJECT, path)
        return {versions.SUBJECT: facts_of(store, versions.SUBJECT)}


MADE: dict[str, Callable[[Path], dict[str, Any]]] = {
    "sqlite.store.zip": store_of("sqlite", *protocols(sealed=False), sealed=False),
    "sqlite-sealed.store.zip": store_of("sqlite", "msgpack", "json", "pickle", sealed=True),
    "file.store.zip": store_of("file", "json", sealed=False),
    "file-sealed.store.zip": store_of("file", "json", "pickle", sealed=True),
    **{f"{protocol}.perdure": export_of(protocol, sealed=False) for protocol in protocols(sealed=False)},
    "versions.exported": migrated,
    **{f"{protocol}-sealed.perdure": export_of(protocol, sealed=True) for protocol in ("json",)},
    **{
        f"{protocol}{'-sealed' if sealed else ''}.snapshot": snapshot_of(protocol, sealed=sealed)
        for sealed in (False, True)
        for protocol in protocols(sealed=sealed)
    },
}
"""The name of each file, and what makes it and says what is expected of it."""


# --- making -----------------------------------------------------------------------------------------------------------


def kept(version: str) -> dict[str, str]:
    """The digest of each file that is kept."""
    path = FOLDER / version / SUMS
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: found for found, name in (line.split("  ") for line in lines)}


def files(version: str) -> list[Path]:
    """Those that are guarded by a digest."""
    there = [path for path in sorted((FOLDER / version).iterdir()) if path.is_file()]
    return [path for path in there if not any(path.match(pattern) for pattern in GROWING)]


def expected(version: str) -> dict[str, Any]:
    """What is expected of each file."""
    path = FOLDER / version / EXPECTED
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def main(version: str = VERSION) -> int:
    """Makes what is missing. A file that is kept stays as it is; one that was changed since is an error."""
    folder, sums, told = FOLDER / version, kept(version), expected(version)
    folder.mkdir(exist_ok=True)
    for path in files(version):
        if sums.get(path.name, sha256(path.read_bytes()).hexdigest()) != sha256(path.read_bytes()).hexdigest():
            sys.stderr.write(f"{path} was changed: golden files are never written again. Put it back\n")
            return 1
    for name, make in MADE.items():
        if not (folder / name).exists():
            with steady():
                told[name] = make(folder / name)
    sums |= {path.name: sha256(path.read_bytes()).hexdigest() for path in files(version) if path.name not in sums}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in told.items())
    (folder / EXPECTED).write_text(f"{{\n{lines}\n}}\n")
    (folder / SUMS).write_text("".join(f"{found}  {name}\n" for name, found in sorted(sums.items())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
