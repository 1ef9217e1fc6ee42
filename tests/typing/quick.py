"""What is made at every save is frozen to a type checker. Checked by mypy, never run."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_type

from perdure.log import Record
from perdure.log.entry import Entry
from perdure.session.rules.request import Draft
from perdure.stores import Batch, Point


def nobody_sets_a_field(entry: Entry, record: Record, draft: Draft, batch: Batch, point: Point) -> None:
    entry.seq = 1  # type: ignore[misc]
    record.body = b""  # type: ignore[misc]
    draft.kind = "note"  # type: ignore[misc]
    batch.summary = b""  # type: ignore[misc]
    point.name = None  # type: ignore[misc]
    assert_type(replace(record, body=b""), Record)
