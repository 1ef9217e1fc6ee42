"""How a session's log is written as lines of JSON, and read back: headers, records, items, commits. No files, no locks.

A batch is its lines and then a commit: a line that says where the log ends now, who may write, what the indexes gain
and lose, and has digests over the batch. A batch without its commit was never written. Lines are ASCII and strict JSON;
a reader takes a line only if it has exactly the form that a writer gives it. `docs/format.md` has them all.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64, b2a_base64
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from perdure.errors import DamageError, FormatNewerError
from perdure.log import KINDS, Base, Record

LAYOUT: Final = 1
"""Version of the folder and its lines."""

RECORD: Final = b'{"seq":'
ITEM: Final = b'{"item":'
BODY: Final = b'{"amend":'
COMMIT: Final = b'{"commit":'

_CHECK_CHARS: Final = 32
_CHECK: Final = b',"check":"'
_BASE64: Final = rb'"([A-Za-z0-9+/]*={0,2})"'
_RECORD_LINE: Final = re.compile(
    rb'\{"seq":(\d{1,18}),"epoch":(\d{1,20}),"kind":"([a-z_]{1,20})","time_us":(\d{1,20})(?:,"view":(\{.*\}),"view_check":"([0-9a-f]{32})")?'
    rb',"chain":"([0-9a-f]{64})","body":' + _BASE64 + rb"\}"
)
_ITEM_LINE: Final = re.compile(rb'\{"item":(\d{1,18}),"mark":(null|"(?:[0-9a-f]{2})*"),"content":' + _BASE64 + rb"\}")
_BODY_LINE: Final = re.compile(rb'\{"amend":(\d{1,18}),"body":' + _BASE64 + rb"\}")


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a segment: whose it is, which record will be its first, and what a fork goes on from."""

    session: str
    family: str
    first: int
    bases: tuple[Base, ...] = ()


def record_line(record: Record, *, view: str = "") -> bytes:
    """One record, exactly; with what it says, for people."""
    return b'{"seq":%d,"epoch":%d,"kind":"%s","time_us":%d%s,"chain":"%s","body":"%s"}\n' % (
        record.seq,
        record.epoch,
        record.kind.encode(),
        record.time_us,
        b',"view":%s,"view_check":"%s"' % (view.encode("ascii"), digest(view.encode()).encode()) if view else b"",
        record.chain.hex().encode(),
        b2a_base64(record.body, newline=False),
    )


def read_record(line: bytes, session: str, *, seq: int) -> Record | None:
    """The record of a line without its end; None unless the line is one of this number."""
    found = _RECORD_LINE.fullmatch(line)
    if found is None or int(found[1]) != seq:
        return None
    _, epoch, kind, time_us, view, check, chain, body = found.groups()
    content = _bytes(body)
    if kind.decode() not in KINDS or content is None or (view is not None and digest(view).encode() != check):
        return None
    return Record(session, seq, int(epoch), kind.decode(), int(time_us), content, bytes.fromhex(chain.decode()))


def seq_of(content: bytes, start: int) -> int:
    """The number at the beginning of a record's line, 0 if there is none."""
    digits = content[start + len(RECORD) : start + len(RECORD) + 19].partition(b",")[0]
    return int(digits) if digits.isdigit() else 0


def item_line(number: int, content: bytes, mark: bytes | None) -> bytes:
    """One item that was sent to the inbox."""
    told = b"null" if mark is None else b'"%s"' % mark.hex().encode()
    return b'{"item":%d,"mark":%s,"content":"%s"}\n' % (number, told, b2a_base64(content, newline=False))


def read_item(line: bytes) -> tuple[int, bytes | None, bytes] | None:
    """(number, mark, content) of a line without its end; None unless it is exactly what was written."""
    found = _ITEM_LINE.fullmatch(line)
    content = _bytes(found[3]) if found is not None else None
    if found is None or content is None:
        return None
    mark = None if found[2] == b"null" else bytes.fromhex(found[2].decode().strip('"'))
    return int(found[1]), mark, content


def body_line(seq: int, body: bytes) -> bytes:
    """A body that stands in the place of the one of an earlier record."""
    return b'{"amend":%d,"body":"%s"}\n' % (seq, b2a_base64(body, newline=False))


def read_body(line: bytes) -> tuple[int, bytes] | None:
    """(seq, body) of a line without its end; None unless it is exactly what was written."""
    found = _BODY_LINE.fullmatch(line)
    body = _bytes(found[2]) if found is not None else None
    return None if found is None or body is None else (int(found[1]), body)


def header_line(header: Header) -> bytes:
    """The first line of a segment."""
    text = f'{{"perdure":"session","layout":{LAYOUT},"session":{json.dumps(header.session)}'
    text += f',"family":{json.dumps(header.family)},"first":{header.first}{bases_told(header.bases)}'
    return checked(text.encode(), header.session)


def read_header(line: bytes, *, place: str) -> Header | None:
    """The header of a line without its end; None if it is none. Raises `FormatNewerError`."""
    try:
        told = json.loads(line)
        if told["perdure"] != "session":
            return None
        if told["layout"] > LAYOUT:
            raise FormatNewerError(
                f"{place}: has layout {told['layout']}, this perdure reads up to {LAYOUT}; nothing was changed"
            )
        if unchecked(line, told["session"]) is None:
            return None
        return Header(told["session"], told["family"], told["first"], bases_of(told))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def bases_told(bases: tuple[Base, ...]) -> str:
    """What a fork goes on from, as a member of an object; nothing for a session that is no fork."""
    told = ",".join(f"[{json.dumps(base.session)},{base.seq}]" for base in bases)
    return f',"bases":[{told}]' if told else ""


def bases_of(told: dict[str, Any]) -> tuple[Base, ...]:
    """What `bases_told` told."""
    return tuple(Base(session, seq) for session, seq in told.get("bases", ()))


def checked(text: bytes, session: str) -> bytes:
    """A line of JSON, still open, closed with a check over it and the session's id."""
    return text + _CHECK + _check(text, session) + b'"}\n'


def unchecked(line: bytes, session: str) -> dict[str, Any] | None:
    """What a line with a check says; None unless it is what was written for this session."""
    text, _, check = line.rpartition(_CHECK)
    if check != _check(text, session) + b'"}':
        return None
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def digest(text: bytes | memoryview) -> str:
    """The digest over the lines of a batch."""
    return sha256(text).hexdigest()[:_CHECK_CHARS]


@lru_cache(maxsize=256)
def quoted(text: str) -> str:
    """Text as JSON; with half characters, which strict JSON cannot hold, a list of its bytes in hex."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return f'["{text.encode(errors="surrogatepass").hex()}"]'
    return json.dumps(text)


def unquoted(told: Any) -> str:
    """The text that `quoted` made this of."""
    if isinstance(told, str):
        return told
    (stored,) = told
    text: str = bytes.fromhex(stored).decode(errors="surrogatepass")
    return text


def damaged(session: str, what: str) -> DamageError:
    """For what is in a folder and is not what was written."""
    return DamageError(f"{session}: {what}; nothing was written, keep the folder and restore from a copy")


def _check(text: bytes, session: str) -> bytes:
    return sha256(session.encode(errors="surrogatepass") + b"\0" + text).hexdigest()[:_CHECK_CHARS].encode()


def _bytes(base64: bytes) -> bytes | None:
    try:
        return a2b_base64(base64, strict_mode=True)
    except ValueError:
        return None
