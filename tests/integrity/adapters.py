"""Our stores as the public suite `agent-memory-integrity` sees them: rows to change, and an answer that is read.

Its adapters are written against `agmi.adapters.base.MemoryAdapter`. What answers is the way in which an agent reads its
state, not an audit: `verify` opens the store and reads.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from agmi.adapters.base import MemoryAdapter
from agmi.adapters.base import Record as Seen

import perdure
from perdure import values
from perdure.errors import DamageError
from perdure.log import Record, chained
from perdure.log.entry import opened, sealed
from perdure.runtime.store import AgentStore
from tests.integrity.rows import FileRows, Rows, SqliteRows

SESSION, OTHER = "memory", "another memory"
KEY = bytes(range(32))
DAY_US = 86_400_000_000


class PerdureAdapter(MemoryAdapter):
    """A session whose records are the entries: one for each save. Without keys and without a witness."""

    name = "perdure"
    kind: ClassVar[str] = "sqlite"
    keys: ClassVar[bytes | None] = None
    with_witness: ClassVar[bool] = False
    supports_replay = supports_metadata = supports_snapshot = True

    def setup(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="perdure-integrity-"))
        self.path = self.folder / ("agents.db" if self.kind == "sqlite" else "agents")
        self.rows: Rows = SqliteRows(self.path) if self.kind == "sqlite" else FileRows(self.path)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def open(self) -> AgentStore:
        url = str(self.path) if self.kind == "sqlite" else f"file:{self.path}"
        options: dict[str, Any] = {} if self.keys is None else {"keys": self.keys}
        return perdure.open(url, witness=self.folder / "witness" if self.with_witness else None, **options)

    # --- what the store itself does -----------------------------------------------------------------------------------

    def seed(self, n: int) -> None:
        self._save(SESSION, [f"entry {number}" for number in range(n)])

    def seed_other(self, n: int) -> None:
        self._save(OTHER, [f"other entry {number}" for number in range(n)])

    def append_genuine(self) -> None:
        self._save(SESSION, ["the newest entry"])

    def _save(self, session: str, entries: list[str]) -> None:
        with self.open() as store:
            handle = store.session(session)
            for text in entries:
                handle.state.setdefault("entries", []).append(text)
                handle.save()
            handle.close()

    def reload(self) -> None:
        """Every use opens it."""

    def verify(self) -> bool:
        """Whether the state reads as an agent would read it that is resumed."""
        self.verify_detail = None
        try:
            self.read()
        except DamageError as error:
            self.verify_detail = f"{type(error).__name__}: {error}"
            return False
        return True

    def read(self) -> Any:
        with self.open() as store:
            return store.state_at(SESSION)

    # --- its rows -----------------------------------------------------------------------------------------------------

    def read_all_raw(self) -> list[Seen]:
        return self._entries(SESSION)

    def read_other_raw(self) -> list[Seen]:
        return self._entries(OTHER)

    def _entries(self, session: str) -> list[Seen]:
        saved = [record for record in self.rows.read(session) if record.kind == "saved"]
        return [Seen(place, _fields(record)) for place, record in enumerate(saved)]

    def write_raw(self, record: Seen) -> None:
        all_, entries = self.rows.read(SESSION), self._entries(SESSION)
        new = _record(record.fields)
        if record.seq < len(entries):
            slot = entries[record.seq].fields["seq"]
            self._replace(slot, replace(new, seq=slot))
            return
        last = all_[-1]
        forged = chained(
            last.chain,
            session=SESSION,
            seq=last.seq + 1,
            epoch=new.epoch,
            kind=new.kind,
            time_us=new.time_us,
            body=new.body,
        )
        self.rows.write(SESSION, [*all_, forged])

    def delete_raw(self, seq: int) -> None:
        slot = self._entries(SESSION)[seq].fields["seq"]
        self.rows.write(SESSION, [record for record in self.rows.read(SESSION) if record.seq != slot])

    def replay_onto(self, victim_seq: int, donor: Seen) -> None:
        slot = self._entries(SESSION)[victim_seq].fields["seq"]
        victim = next(record for record in self.rows.read(SESSION) if record.seq == slot)
        self._replace(slot, replace(victim, body=_record(donor.fields).body))

    def read_meta(self, seq: int) -> dict[str, Any]:
        fields = self._entries(SESSION)[seq].fields
        return {name: fields[name] for name in ("epoch", "time_us")}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        slot = self._entries(SESSION)[seq].fields["seq"]
        victim = next(record for record in self.rows.read(SESSION) if record.seq == slot)
        self._replace(slot, replace(victim, time_us=meta["time_us"] + DAY_US))

    def _replace(self, slot: int, new: Record) -> None:
        self.rows.write(SESSION, [new if record.seq == slot else record for record in self.rows.read(SESSION)])

    def mutate_payload(self, record: Seen) -> Seen:
        body = bytes.fromhex(record.fields["body"])
        record.fields["body"] = (_reworded(_record(record.fields)) if self.keys is None else _flipped(body)).hex()
        return record

    def snapshot_store(self) -> object:
        return self._copy_store(self.path)

    def restore_store(self, token: object) -> None:
        self._restore_store(str(token), self.path)

    # --- what the suite's own guard asks ------------------------------------------------------------------------------

    def identity_of(self, record: Seen) -> str:
        return f"{record.fields['session']}:{record.fields['seq']}"

    def payload_of(self, record: Seen) -> str:
        return str(record.fields["body"])

    def owner_of(self, record: Seen) -> str:
        return str(record.fields["session"])


def _fields(record: Record) -> dict[str, Any]:
    return {
        "session": record.session,
        "seq": record.seq,
        "epoch": record.epoch,
        "kind": record.kind,
        "time_us": record.time_us,
        "chain": record.chain.hex(),
        "body": record.body.hex(),
    }


def _record(fields: dict[str, Any]) -> Record:
    more = {name: bytes.fromhex(fields[name]) for name in ("chain", "body")}
    return Record(**(fields | more))


def _reworded(record: Record) -> bytes:
    """The body with another text in it, as well formed as before."""
    body = opened(record).body
    ops = values.decode(body["delta"])
    text = values.encode(ops).replace(b"entry", b"ENTRY")
    return sealed(body | {"delta": text})


def _flipped(body: bytes) -> bytes:
    """Another body of the same length: whoever has no key can write no better one."""
    return body[:-1] + bytes([body[-1] ^ 1])


class WitnessedAdapter(PerdureAdapter):
    """With a witness outside of what is copied and put back."""

    name = "perdure+witness"
    with_witness = True


class KeyedAdapter(PerdureAdapter):
    """With a key."""

    name = "perdure+key"
    keys = KEY


class GuardedAdapter(KeyedAdapter):
    """With a key and a witness."""

    name = "perdure+key+witness"
    with_witness = True


class FileKeyedAdapter(KeyedAdapter):
    """A store of files, with a key."""

    name, kind = "perdure-file+key", "file"


class FileGuardedAdapter(GuardedAdapter):
    """A store of files, with a key and a witness."""

    name, kind = "perdure-file+key+witness", "file"


class FilePlainAdapter(PerdureAdapter):
    """A store of files, without keys and without a witness."""

    name, kind = "perdure-file", "file"


class FileWitnessedAdapter(WitnessedAdapter):
    """A store of files, with a witness."""

    name, kind = "perdure-file+witness", "file"


class TrustingAdapter(PerdureAdapter):
    """The control: the same rows, read by somebody who checks nothing."""

    name = "perdure, nothing checked"

    def read(self) -> Any:
        """The state as the rows give it, one after another."""
        entries: list[str] = []
        for record in self.rows.read(SESSION):
            if record.kind == "saved":
                for _, _, values_ in values.decode(opened(record).body["delta"]):  # the part is set, then extended
                    entries += values_
        return entries


class FileTrustingAdapter(TrustingAdapter):
    """The same over a store of files."""

    name, kind = "perdure-file, nothing checked", "file"
