"""The JSON of each command. `docs/cli.md` promises these shapes: names are added, never changed or taken away."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from perdure.cli import failing
from perdure.cli.text import decisions
from perdure.log.readable import json_of, moment
from perdure.recovery.difference import ABSENT
from perdure.values import outward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.cli.place import Place
    from perdure.log.branch import Absence
    from perdure.log.branches import Branch
    from perdure.log.choices import Choice
    from perdure.log.interventions import Intervention
    from perdure.ops.alerts.watcher import Alert
    from perdure.ops.doctor import Diagnosis
    from perdure.ops.erasure import Erasure
    from perdure.ops.gone import GcReport
    from perdure.ops.restored import Accepted
    from perdure.ops.scrubbing import ScrubReport
    from perdure.recovery.difference import Change, Diff
    from perdure.recovery.files import FilesTaken
    from perdure.recovery.verify import Read, Report
    from perdure.runtime.content import ActionContent
    from perdure.runtime.detail import ActionDetail, Detail, InspectionDetail, PointDetail, RollbackDetail
    from perdure.runtime.listed import SessionInfo
    from perdure.runtime.migrating import Migration
    from perdure.runtime.outcome import Outcome, Question
    from perdure.runtime.rehearsal import Rehearsal
    from perdure.runtime.replay import Replay
    from perdure.session.restored import Restored
    from perdure.stores.contract import Point


def info(found: SessionInfo) -> dict[str, Any]:
    """A session as listings show it."""
    plain = {
        name: value for name, value in asdict(found).items() if name not in ("id", "created_us", "updated_us", "waits")
    }
    times = {"created": moment(found.created_us), "updated": moment(found.updated_us)}
    return {"session": found.id, **plain, **times, "waits": list(found.waits)}


def detail(found: Detail, place: Place) -> dict[str, Any]:
    """A session in full."""
    return {
        **info(found.info),
        "version": found.version,
        "labels": found.labels,
        "points": [point(p) for p in found.points],
        "inspections": [inspection(p) for p in found.inspections],
        "journal": [action(a) for a in found.actions],
        "standing": [action(a) for a in found.standing],
        "questions": [question(q, found.info.id, place) for q in found.questions],
        "children": [{"session": c.id, "status": c.status, "reason": c.reason} for c in found.children],
        "branches": [branch(b) for b in found.branches],
        "choices": [choice(c) for c in found.choices],
        "interventions": [intervention(i) for i in found.interventions],
        "spent": found.spent,
        "circling": found.circling or None,
        "origin": None if found.origin is None else asdict(found.origin),
        "files": None if found.files is None else {**asdict(found.files), "missing": found.files.missing or None},
        "rollbacks": [rollback(r) for r in found.rollbacks],
    }


def rollback(found: RollbackDetail) -> dict[str, Any]:
    """A rollback."""
    return {
        "seq": found.seq,
        "to": found.to,
        "name": found.name or None,
        "strategy": json_of(found.strategy),
        "reason": found.reason,
        "by": found.by,
        "undone": list(found.undone),
        "standing": list(found.standing),
        "files": None if found.files is None else _taken(found.files),
        "time": moment(found.time_us),
    }


def _taken(found: FilesTaken) -> dict[str, Any]:
    changes = [{"path": one.path, "what": one.what} for one in found.changes]
    kept = [{"path": path, "name": name} for path, name in found.kept]
    return {"changes": changes, "kept": kept, "missing": found.missing or None}


def branch(found: Branch) -> dict[str, Any]:
    """A branch of a log."""
    plain = {name: value for name, value in asdict(found).items() if name not in ("name", "time_us", "is_present")}
    return {**plain, "name": found.name or None, "began": moment(found.time_us), "present": found.is_present}


def choice(found: Choice) -> dict[str, Any]:
    """What a failure policy chose."""
    failure = None if found.failure is None else {k: v for k, v in asdict(found.failure).items() if k != "time_us"}
    return {
        "seq": found.seq,
        "do": found.do,
        "to": found.to,
        "strategy": json_of(found.strategy),
        "outcome": found.outcome or None,
        "reason": found.reason,
        "failures": found.failures,
        "failure": failure,
    }


def intervention(found: Intervention) -> dict[str, Any]:
    """What somebody did to a session."""
    plain = {name: value for name, value in asdict(found).items() if name != "time_us"}
    return {**plain, "time": moment(found.time_us)}


def snapshot(found: Point) -> dict[str, Any]:
    """A snapshot, of whatever kind."""
    told = {"seq": found.seq, "kind": found.kind, "name": found.name, "from": found.parent or None}
    return {**told, "time": moment(found.time_us)}


def point(found: PointDetail) -> dict[str, Any]:
    """A restore point."""
    return {
        "seq": found.seq,
        "name": found.name or None,
        "reason": found.reason or None,
        "reentry": found.reentry,
        "time": moment(found.time_us),
    }


def inspection(found: InspectionDetail) -> dict[str, Any]:
    """A snapshot for inspection."""
    told = {"seq": found.seq, "reason": found.reason or None, "absent": absent(found.absent)}
    return {**told, "automatic": found.automatic, "time": moment(found.time_us)}


def absent(found: Iterable[Absence]) -> list[dict[str, Any]]:
    """What is missing from snapshots."""
    return [asdict(one) for one in found]


def action(found: ActionDetail) -> dict[str, Any]:
    """An action."""
    plain = {name: value for name, value in asdict(found).items() if name != "started_us"}
    return {**plain, "started": moment(found.started_us)}


def action_content(found: ActionContent) -> dict[str, Any]:
    """An action in full."""
    return {
        "seq": found.seq,
        "call": found.call,
        "effect": found.effect,
        "arguments": json_of(found.arguments),
        "not_kept": found.not_kept,
        "outcome": found.outcome,
        "result": json_of(found.result),
        "idempotency_key": found.idempotency_key,
    }


def question(found: Question, session: str, place: Place) -> dict[str, Any]:
    """What waits for a person, with the commands that decide it."""
    verb = "settle" if found.kind == "doubt" else "answer"
    return {
        "seq": found.seq,
        "kind": found.kind,
        "session": found.session or session,
        "prompt": found.prompt,
        "choices": None if found.choices is None else json_of(list(found.choices)),
        "schema": found.schema,
        "idempotency_key": found.idempotency_key or None,
        "commands": [place.command(verb, found.session or session, *words) for words, _ in decisions(found)],
    }


def diff(found: Diff) -> dict[str, Any]:
    """What differs between two points."""
    return {
        "session": found.before.session,
        "at": found.before.seq,
        "other": found.after.session,
        "to": found.after.seq,
        "changes": [change(c) for c in found.changes],
        "absent": absent(found.absent),
        "files": [{"path": one.path, "what": one.what} for one in found.files],
    }


def change(found: Change) -> dict[str, Any]:
    """One change; what there is nothing of is left out."""
    told: dict[str, Any] = {"op": found.op, "path": json_of([*found.path]), "at": found.at}
    field = str(found.path[-1]) if found.path and found.op in ("set", "del") else ""
    both = (("value", found.value), ("was", found.was))
    told |= {name: outward.document(json_of(v), field) for name, v in both if v is not ABSENT}
    return told | ({"start": found.start, "deleted": found.deleted} if found.op == "splice" else {})


def report(found: Report) -> dict[str, Any]:
    """What verifying a session found."""
    return {
        "session": found.session,
        "ok": found.ok,
        "records": found.records,
        "lost": found.lost,
        "newest_valid": found.newest_valid,
        "restored": None if found.newest_valid is None else {"seq": found.newest_valid, "parts": found.parts},
        "read": read(found.read),
        "problems": [{"seq": p.seq, "kind": p.kind, "what": p.what} for p in found.problems],
    }


def accepted(found: Accepted | None) -> dict[str, Any] | None:
    """What accepting a restored store did."""
    if found is None:
        return None
    left = [{"session": session, "why": why} for session, why in found.left]
    return {**asdict(found), "left": left}


def read(found: Read) -> dict[str, Any]:
    """How much was read."""
    return {"records": found.records, "chunks": found.chunks, "bytes": found.bytes, "data": str(found.data)}


def replay(found: Replay) -> dict[str, Any]:
    """How a replay went."""
    return asdict(found) | {"same": found.same}


def rehearsal(found: Rehearsal) -> dict[str, Any]:
    """How a dry run went."""
    told = asdict(found.replay) | {"same": bool(found), "steps": [asdict(step) for step in found.steps]}
    return told | {"modules": list(found.modules), "keys": list(found.keys)}


def outcome(found: Outcome, session: str, place: Place) -> dict[str, Any]:
    """How a run ended."""
    return {
        "session": session,
        "status": found.status,
        "reason": found.reason,
        "result": json_of(found.result),
        "error": None if found.error is None else failing.document(found.error, trace=True),
        "questions": [question(q, session, place) for q in found.questions],
        "restored": None if found.restored is None else restored(found.restored),
        "resume": place.command("resume", session),
    }


def restored(found: Restored) -> dict[str, Any]:
    """What a restore did."""
    return {
        "session": found.session,
        "seq": found.seq,
        "at": moment(round(found.at.timestamp() * 1e6)),
        "after_s": found.after_s,
        "rung": found.rung,
        "attempts": found.attempts,
        "answered": found.answered,
        "again": found.again,
        "doubt": found.doubt,
        "skipped": [{"seq": one.seq, "why": one.why} for one in found.skipped],
        "missing": list(found.missing),
        "source": found.source or None,
        "lost": found.lost,
    }


def gc(found: GcReport) -> dict[str, Any]:
    """What `gc` did, or would do."""
    return {
        "dry_run": found.dry_run,
        "bytes": found.bytes,
        "chunks": found.chunks,
        "chunk_bytes": found.chunk_bytes,
        "given_back": found.given_back,
        "stored_bytes": found.stored_bytes,
        "over_bytes": found.over_bytes,
        "deleted": [
            {"session": one.session, "bytes": one.bytes, "left_alone": one.left_alone or None} for one in found.deleted
        ],
        "sessions": [
            {
                "session": one.session,
                "snapshots": one.snapshots,
                "records": one.records,
                "bytes": one.bytes,
                "kept": one.kept,
                "left_alone": one.left_alone or None,
            }
            for one in found.sessions
        ],
    }


def erasure(one: Erasure) -> dict[str, Any]:
    """That a session was erased."""
    return {
        "digest": one.digest,
        "at": moment(one.time_us),
        "by": one.by,
        "reason": one.reason,
        "is_there": one.is_there,
    }


def migration(found: Migration) -> dict[str, Any]:
    """What became of the sessions of a store, or would become of them."""
    return {
        "to": found.to,
        "dry_run": found.dry_run,
        "stopped": found.stopped,
        "counts": found.counts,
        "sessions": [
            {
                "session": one.session,
                "what": one.what,
                "from": one.source,
                "steps": list(one.steps),
                "changes": list(one.changes),
                "changes_count": one.count,
                "why": one.why or None,
            }
            for one in found.sessions
        ],
    }


def scrub(found: ScrubReport) -> dict[str, Any]:
    """What `scrub` did, or would do."""
    return {
        "dry_run": found.dry_run,
        "clean": found.clean,
        "chunks": found.chunks,
        "sessions": [
            {"session": one.session, "records": one.records, "left_alone": one.left_alone or None}
            for one in found.sessions
        ],
    }


def diagnosis(found: Diagnosis, place: Place) -> dict[str, Any]:
    """A store looked over."""
    return {
        "ok": found.ok,
        "needs_person": found.needs_person,
        "sessions": found.sessions,
        "records": found.records,
        "read": found.read,
        "not_read": [{"what": what, "option": option} for what, option in found.not_read],
        "findings": [
            {
                "severity": one.severity,
                "kind": one.kind,
                "session": one.session or None,
                "what": one.what,
                "age_s": one.age_s,
                "needs_person": one.needs_person,
                "mend": place.command(*one.mend) if one.mend else None,
                "mended": one.mended,
            }
            for one in found.findings
        ],
    }


def metrics(samples: list[tuple[str, dict[str, str], float]]) -> list[dict[str, Any]]:
    """What is scraped, one document for each value; a value that is no number of JSON is a text."""
    return [
        {"name": name, "labels": labels, "value": value if math.isfinite(value) else str(value)}
        for name, labels, value in samples
    ]


def alert(found: Alert) -> dict[str, Any]:
    """An alert that fires."""
    rule = found.rule
    return {
        "alert": rule.name,
        "severity": rule.severity,
        "metric": rule.metric,
        "value": found.value,
        "side": rule.side,
        "limit": rule.limit,
        "says": rule.says,
        "command": f"perdure {rule.command}",
    }
