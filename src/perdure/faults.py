"""Named instants at which a test can end the process: each is one line in the code that it interrupts.

A point costs one comparison while no test listens. `POINTS` lists them all; a bench that does not reach one fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

POINTS: Final = {
    "append.before": "a batch of records is about to be handed to the store",
    "append.inside": "the batch is written, its transaction is not yet committed",
    "append.chunks": "the chunks of a batch are in their files, its records are not written",
    "append.cut": "a torn tail is cut off a file, nothing is written in its place",
    "rotate.inside": "a new segment of a log is written, it has no name yet",
    "rotate.after": "the new segment has its name, which is not yet synced",
    "append.after": "the store has committed, the session does not know it yet",
    "amend.inside": "bodies are dropped and the record that says so is written, their transaction is not yet committed",
    "erase.inside": "a session is removed and its tombstone is set, the transaction is not yet committed",
    "erase.after": "a session is removed, what the store has freed may still hold bytes of it",
    "sweep.inside": "chunks that nothing needs are removed, the transaction is not yet committed",
    "rekey.begun": "a family has a new data key, nothing is sealed with it",
    "rekey.part": "some bodies or chunks are sealed with the new data key, others are not",
    "envelope.inside": "the new envelope of a family is written, its transaction is not yet committed",
    "scrub.session": "the records of a session have the secret no more, other sessions and chunks have it still",
    "scrub.swept": "no record and no chunk has the secret any more, what the store has freed may still hold it",
    "purge.inside": "a segment of a log is written anew without what is gone, the others are not",
    "effect.before": "the start of an action is recorded as its class demands; its function has not been called",
    "effect.after": "the function has returned, its outcome is not recorded",
    "stream.chunk": "a chunk of a stream is read, the code does not have it",
    "fork.before": "a fork is about to be made, nothing of it is written",
    "fork.inside": "the fork and its first record are written, their transaction is not yet committed",
    "fork.after": "the store has committed a fork, its maker does not know it yet",
    "restore.fenced": "a damaged session is cancelled in its inbox, the one in its place is not made",
    "send.after": "an item is in the inbox, and nobody has done anything about it",
    "keyframe.before": "a keyframe is due, nothing of it is written",
    "keyframe.chunks": "the chunks of a keyframe are stored, the record that names them is not",
    "keyframe.after": "the keyframe's record is queued for the next commit",
    "migrate.before": "a state is brought to another version in memory, nothing of it is written",
    "migrate.after": "a session of a store is migrated, the next one is not looked at yet",
    "edit.before": "a state is changed by hand in memory, nothing of it is written",
    "export.written": "the exported file is whole and synced under another name, not yet renamed",
    "import.begun": "the session that is imported is made or taken, nothing more of it is written",
    "import.chunks": "some chunks of what is imported are stored, the records that name them are not",
    "import.part": "some records of what is imported are written, the last of them are not",
    "restored.begun": "the new incarnation of a restored store is begun, no session of it is taken on",
    "restored.inside": "a session of a restored store is taken on, the next one is not",
    "witness.before": "a witness is about to be told, the store has committed",
    "witness.inside": "the file of a witness is written anew under another name, not yet renamed",
    "tier.ahead": "hot has acknowledged an append, cold has not been told",
    "tier.copy": "what only hot has is about to be written to cold",
    "tier.copied": "cold has it, the copier does not know it yet",
    "tier.frozen": "hot takes nothing more for a session that is about to be opened, nothing of it is carried over",
    "tier.carry": "what another owner left in hot is about to be written to cold",
    "tier.carried": "cold has what another owner left in hot, the session is not taken yet",
    "tier.take": "a new owner is about to make hot's copy its own",
    "tier.evict": "a copy, or parts of it, are about to leave hot",
    "journal.append": "lines are about to be added to the mirror of the journal",
    "journal.appended": "the lines are in the mirror's file, the process that wrote them does not know it yet",
    "journal.rotate": "how far all is mirrored is durable, the full file has its name still",
    "journal.shifted": "a file that was put aside has its next name, others have not",
    "journal.rotated": "the full file is put aside, there is no new one yet",
    "journal.replace": "what replaces a file of the mirror is written under another name, not yet renamed",
    "import.whole": "all of what is imported is written, its lease is not given back",
    "begin.made": "the session that begins from a snapshot is made, nothing is written in it",
    "capture.chunks": "chunks of a workspace are about to be put into the store",
    "capture.put": "all that a capture of a workspace consists of is in the store, nothing names it",
    "restore.files": "a workspace is about to be taken back, nothing of it is changed",
    "restore.aside": "a file that somebody else changed has another name, what belongs there is not yet there",
    "restore.removed": "a file or folder that a restore takes away is gone",
    "restore.written": "a file of a restore is written and synced under another name, not yet renamed",
    "restore.replaced": "a file of a restore has its name",
    "restore.settled": "all files of a restore are in their places, their folders are not yet synced",
    "begin.whole": "all that a session begins with is written, its lease is not given back",
}

hook: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Tells the listening test, if there is one, that this instant is reached."""
    if hook is not None:
        hook(point)
