"""Every error that perdure raises, and the control flow that is not an error.

An error says what happened, to which id, and what to do next. Each class has a `code` (stable, kebab-case, in the docs
and in `--json`) and an `exit_status` for the command line (one per kind).

    PerdureError
    ├── StorableError            a value or a class that cannot be stored exactly
    │   ├── UnstorableError          the value at a path
    │   ├── TagError                 a registration that contradicts another, or stored fields that do not fit
    │   ├── LimitError               a bound of `limits` is exceeded
    │   ├── ClassUnknownError        a class of a team that is not known here, by its name
    │   ├── ProtocolError            a protocol that cannot be used here
    │   └── SecretFoundError         what looks like a secret, on its way into a store without keys
    ├── SecretMissingError       a Secret whose value is not to be had here
    ├── DamageError              stored bytes that are not what was written
    │   ├── FormatNewerError         written by a newer perdure; not damage, but unreadable here
    │   ├── NotSealedError           a plain row in a store that is sealed
    │   ├── MissingError             a record or a chunk that is not there
    │   ├── RestoreError             no snapshot that is provably good for this request
    │   ├── WitnessError             not the log that the witness was told of: older, another, or gone
    │   ├── TeamFileError            a team's file that is not there, or is none
    │   └── UnfinishedError          a session that was imported half-way
    ├── StoreError               the place where sessions are kept
    │   ├── StoreUrlError            no such store, or its extra is not installed
    │   ├── StoreFailedError         an I/O error: full, read-only, gone
    │   ├── ConflictError            the head is not where the writer thought
    │   ├── FencedError              another owner has the session now
    │   ├── HeldError                somebody holds the session
    │   └── WitnessFailedError       the witness cannot be asked or told
    ├── KeysError                the keys of a store: malformed, or the extra for them is not installed
    │   ├── KeyNeededError           the store is sealed, and no key was given
    │   ├── KeyWrongError            sealed under a key that was not given
    │   └── StorePlainError          keys were given for a store that is not sealed
    ├── SessionError             what was asked of a session
    │   ├── SessionIdError           not a valid id
    │   ├── SessionUnknownError      no session of that id
    │   ├── SessionExistsError       already there
    │   ├── SessionErasedError       erased; its id is not used again
    │   ├── HasForksError            other sessions go on from its records
    │   ├── InputDiffersError        opened with another input
    │   ├── NoPointError             no such restore point on this branch
    │   ├── NotKeptError             an argument of which only the digest was recorded
    │   ├── NoSessionError           a declared action in a thread that has no session
    │   ├── ProcessForkedError       a handle used on the other side of `os.fork`
    │   ├── ClosedError              a session that is closed
    │   ├── VersionError             the state is of another version than the code, and no steps lead there
    │   │   └── MigrationError           a step from one version to another failed
    │   ├── StateChangedError        another thread changed the state during a save
    │   └── SessionCancelledError    somebody cancelled it, which is final
    ├── RunError                 what the agent's code did
    │   ├── DivergedError            the code does not make the calls that are recorded
    │   ├── KeyReusedError           a key came back with another name, other arguments or another prompt
    │   ├── RefusedError             not allowed in this place
    │   ├── DeadEndError             a way that cannot lead to an agent's goal
    │   ├── NoProgressError          a step that did nothing
    │   ├── BudgetError              what the session may spend is spent
    │   ├── AbandonedError           an action that a person abandoned
    │   ├── ArgumentsChangedError    a tool changed the arguments it was given
    │   ├── RecordedError            stands for an error of a class that may not be rebuilt
    │   │   ├── ChildFailedError         a child came to an end without a result
    │   │   ├── ModelFailedError         a language model was asked, and its server refused or failed
    │   │   └── InvalidOutputError       what a language model replied is not what was asked for
    │   ├── UndecidedError           a doubt or a question that cannot be settled or answered so
    │   ├── AppendOnlyError          an item of an append-only part was rewritten (strict mode)
    │   ├── SuspendedError           a handle waits for a person
    │   ├── InboxEmptyError          nothing was sent to a handle
    │   ├── StoppedError             a handle was paused or cancelled by somebody
    │   └── HookFailedError          what an agent needs besides its state could not be made ready
    ├── WorkspaceError           the folder of a session: gone, unreadable, or not to be taken back
    ├── ModelError               a language model that cannot be asked
    ├── ToolError                tools that cannot be made
    ├── ConfigError              a configuration that cannot be used: every problem, with its place and key
    └── EntryError               no such function to run
    Leaving (BaseException)      control flow in a run: Suspended, RolledBack, Stopped, Idle
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar


class PerdureError(Exception):
    """Base of all errors of perdure."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 1


class StorableError(PerdureError):
    """A value or a class that cannot be stored exactly."""

    code, exit_status = "storable", 10


class UnstorableError(StorableError):
    """A value that cannot be stored; `path` says where it is, as in `$.plan[3].tool`."""

    code = "unstorable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class TagError(StorableError):
    """A registration that contradicts another, or stored fields that do not fit their class."""

    code = "tag"


class LimitError(StorableError):
    """A bound of `perdure.limits` is exceeded."""

    code = "limit"


class ClassUnknownError(StorableError):
    """A role, an action or a content of a team is of a class that is not known here; the message names it.

    Nothing was imported or built.
    """

    code, exit_status = "class-unknown", 13


class ProtocolError(StorableError):
    """A protocol that is not there, whose extra is not installed, or that is not allowed here. Nothing was changed."""

    code = "protocol"


class SecretFoundError(StorableError):
    """What looks like a secret was to be stored without encryption; `path` says where it is. Nothing was written."""

    code, exit_status = "secret-found", 11

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path}: {what}. A store without keys keeps no secrets; nothing was written. Keep a reference in its "
            'place (perdure.Secret("secret://env/NAME")), open the store with keys=, or with secrets="mask" or "allow"'
        )
        self.path, self.what = path, what


class SecretMissingError(PerdureError):
    """A Secret whose value is not to be had here. The message says what was looked for, and where."""

    code, exit_status = "secret-missing", 12


class DamageError(PerdureError):
    """Stored bytes that are not what was written: flipped, cut, swapped, duplicated or foreign."""

    code, exit_status = "damage", 20


class FormatNewerError(DamageError):
    """Written by a newer perdure. Nothing was changed; read it with that version."""

    code, exit_status = "format-newer", 21


class MissingError(DamageError):
    """A record or a chunk that must be there is not; what is there and cannot be read is another damage."""

    code = "missing"


class RestoreError(DamageError):
    """No snapshot that is provably good for this request."""

    code, exit_status = "restore", 22


class UnfinishedError(DamageError):
    """A session that was imported or copied half-way. It has no state, and is not gone on with."""

    code, exit_status = "unfinished", 23


class TeamFileError(DamageError):
    """A team's file is not there, is cut or damaged, or is none. Nothing was taken from it."""

    code, exit_status = "team-file", 26


class NotSealedError(DamageError):
    """A row in clear in a store that is sealed: nobody who has the key wrote it."""

    code, exit_status = "not-sealed", 24


class WitnessError(DamageError):
    """A session is not the one that the witness was told of: an older copy, another log, or gone. Nothing was read."""

    code, exit_status = "witness", 25


class StoreError(PerdureError):
    """The place where sessions are kept."""

    code, exit_status = "store", 30


class StoreUrlError(StoreError):
    """No store of that kind, or the extra that it needs is not installed."""

    code, exit_status = "store-url", 31


class StoreFailedError(StoreError):
    """The store could not read or write: full, read-only, gone. What was acknowledged before is kept."""

    code, exit_status = "store-failed", 32


class ConflictError(StoreError):
    """The head is not where the writer thought: somebody else appended. Nothing was written."""

    code, exit_status = "conflict", 33


class FencedError(StoreError):
    """Another owner has the session now. Nothing was written."""

    code, exit_status = "fenced", 34


class HeldError(StoreError):
    """Somebody holds the session."""

    code, exit_status = "held", 35


class WitnessFailedError(StoreError):
    """The witness cannot be asked or told, or what it says is not what it was told."""

    code, exit_status = "witness-failed", 36


class KeysError(PerdureError):
    """A key that is none, cannot be read, or needs an extra that is not installed."""

    code, exit_status = "keys", 90


class KeyNeededError(KeysError):
    """The store is sealed, and was opened without a key."""

    code, exit_status = "key-needed", 91


class KeyWrongError(KeysError):
    """Sealed under a key that was not given. Nothing was changed."""

    code, exit_status = "key-wrong", 92


class StorePlainError(KeysError):
    """Keys were given for a store that holds sessions in clear. Nothing was changed."""

    code, exit_status = "store-plain", 93


class ConfigError(PerdureError):
    """A configuration that cannot be used. `problems` has each, with its place and key. Nothing was opened."""

    code, exit_status = "config", 94

    def __init__(self, problems: Sequence[object]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


class WorkspaceError(PerdureError):
    """The folder that belongs to a session is not there, cannot be read, or cannot be taken back."""

    code, exit_status = "workspace", 82


class ModelError(PerdureError):
    """A language model that cannot be asked: unknown, without its key or its package, or out of scripted replies.

    Nothing was recorded of the request, and it is made when the session is resumed.
    """

    code, exit_status = "model", 95


class ToolError(PerdureError):
    """A set of tools that cannot be made: an extra that is not installed, a folder or a server that is not there."""

    code, exit_status = "tool", 100


class SessionError(PerdureError):
    """What was asked of a session."""

    code, exit_status = "session", 40


class SessionIdError(SessionError):
    """Not a valid session id."""

    code, exit_status = "session-id", 41


class SessionUnknownError(SessionError):
    """No session of that id in this store."""

    code, exit_status = "session-unknown", 42


class SessionExistsError(SessionError):
    """A session of that id is there already."""

    code, exit_status = "session-exists", 43


class SessionErasedError(SessionError):
    """The session was erased; its id is not used again."""

    code, exit_status = "session-erased", 44


class HasForksError(SessionError):
    """Other sessions are forks of this one and begin with its records; delete them first. Nothing was deleted."""

    code, exit_status = "has-forks", 51


class InputDiffersError(SessionError):
    """The session was opened with another input."""

    code, exit_status = "input-differs", 45


class NoPointError(SessionError):
    """No such restore point on this branch."""

    code, exit_status = "no-point", 46


class NotKeptError(SessionError):
    """Only the digest, or the type, of this argument was recorded."""

    code, exit_status = "not-kept", 52


class NoSessionError(SessionError):
    """A declared action was called in a thread that has no session, while one is open elsewhere."""

    code, exit_status = "no-session", 47


class ProcessForkedError(SessionError):
    """A handle was used on the other side of `os.fork()`; open the session again there."""

    code, exit_status = "process-forked", 48


class ClosedError(SessionError):
    """The session is closed."""

    code, exit_status = "closed", 49


class VersionError(SessionError):
    """The state is of another version than the code, and no steps lead from one to the other. Nothing was written."""

    code, exit_status = "version", 54


class MigrationError(VersionError):
    """A step from one version to another failed, or gave what is no valid state. Nothing was written."""

    code, exit_status = "migration", 55


class StateChangedError(SessionError):
    """Another thread changed the state during a save. Nothing was written; save again."""

    code, exit_status = "state-changed", 50


class SessionCancelledError(SessionError):
    """The session was cancelled, which is final. What it did is kept."""

    code, exit_status = "session-cancelled", 53


class RunError(PerdureError):
    """What the agent's code did."""

    code, exit_status = "run", 60


class DivergedError(RunError):
    """The code does not make the calls that are recorded; stopped before any effect."""

    code, exit_status = "diverged", 61


class KeyReusedError(RunError):
    """A key came back with another name, other arguments or another prompt."""

    code, exit_status = "key-reused", 62


class RefusedError(RunError):
    """Not allowed in this place."""

    code, exit_status = "refused", 63


class DeadEndError(RunError):
    """A way that cannot lead to an agent's goal: the agent says so, or a task was judged not to be done too often."""

    code, exit_status = "dead-end", 101


class NoProgressError(RunError):
    """A step that neither called, changed nor completed anything."""

    code, exit_status = "no-progress", 64


class BudgetError(RunError):
    """What the session may spend is spent."""

    code, exit_status = "budget", 71


class AbandonedError(RunError):
    """A person abandoned this action; it is never run again."""

    code, exit_status = "abandoned", 65


class ArgumentsChangedError(RunError):
    """A tool changed the arguments it was given; its result is recorded, the change would be lost on resume."""

    code, exit_status = "arguments-changed", 66


class RecordedError(RunError):
    """Stands, live and replayed, for an error of a class that may not be rebuilt from stored bytes.

    `kind` is the name of the original class, `text` its message.
    """

    code, exit_status = "recorded", 67

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind, self.text = kind, text


class ChildFailedError(RecordedError):
    """A child came to an end without a result. The same live and replayed.

    `child` is its id, `status` failed or cancelled; `kind` and `text` are the class and the message of its error.
    """

    code, exit_status = "child-failed", 70

    def __init__(self, child: str, status: str, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.args = (f"{child} {status}: {self.args[0]}",)
        self.child, self.status = child, status


class ModelFailedError(RecordedError):
    """A language model was asked, and its server refused, failed or was not reached. The same live and replayed.

    `kind` is the name of the class of it in pydantic-ai, `model` who was asked, `status` the HTTP status (None:
    there was none), `retry_after_s` how long the server wants to be left alone (0: it said nothing), `passes` whether
    the same request may succeed later, `cost` what is known of the cost of a reply that broke off, by unit.
    """

    code, exit_status = "model-failed", 96
    cost: Mapping[str, float] = MappingProxyType({})

    def __init__(
        self, kind: str, text: str, *, model: str, status: int | None, retry_after_s: float, passes: bool
    ) -> None:
        super().__init__(kind, text)
        self.args = (f"{model}: {text}",)
        self.model, self.status, self.retry_after_s, self.passes = model, status, retry_after_s, passes


class InvalidOutputError(RecordedError):
    """What a language model replied is not what was asked for, also after it was told so. The same live and replayed.

    `model` is who was asked, `text` what is wrong, `reply` the beginning of the reply, `cost` what the request cost,
    by unit.
    """

    code, exit_status = "invalid-output", 97
    passes = False

    def __init__(self, model: str, text: str, *, reply: str, cost: dict[str, float]) -> None:
        super().__init__("InvalidOutputError", text)
        self.args = (f"{model} replied what cannot be used: {text}",)
        self.model, self.reply, self.cost = model, reply, cost


class UndecidedError(RunError):
    """A doubt or a question that cannot be settled or answered so."""

    code, exit_status = "undecided", 68


class AppendOnlyError(RunError):
    """An item of a part that was declared append-only was rewritten (strict mode)."""

    code, exit_status = "append-only", 69


class SuspendedError(RunError):
    """A handle waits for a person: settle the doubts, answer the questions, open it again. `seqs` are their records."""

    code, exit_status = "suspended", 75

    def __init__(self, text: str, seqs: tuple[int, ...]) -> None:
        super().__init__(text)
        self.seqs = seqs


class InboxEmptyError(RunError):
    """Nothing was sent to this session. Its code goes on, and may receive again."""

    code, exit_status = "inbox-empty", 78


class StoppedError(RunError):
    """A handle was paused or cancelled by somebody; `recorded` says whether the log has it already."""

    code, exit_status = "stopped", 77

    def __init__(self, text: str, *, recorded: bool = False) -> None:
        super().__init__(text)
        self.recorded = recorded


class HookFailedError(RunError):
    """A hook of a restore failed, took too long, or has ended the process too often. No code of the agent has run."""

    code, exit_status = "hook-failed", 73


class EntryError(PerdureError):
    """No such function to run."""

    code, exit_status = "entry", 80


class Leaving(BaseException):
    """Control flow that leaves a run. Not an `Exception`, so that no tool's `except Exception` swallows it."""


class Suspended(Leaving):
    """The session waits for a doubt to be settled or a question to be answered; `seqs` are their records."""

    def __init__(self, seqs: tuple[int, ...], *, why: str = "") -> None:
        super().__init__(why or f"waits for {', '.join(f'#{seq}' for seq in seqs)}")
        self.seqs = seqs


class RolledBack(Leaving):
    """The run goes on from an earlier point; the runner enters the code again."""


class Stopped(Leaving):
    """The run was asked to stop: by a signal, or by somebody who paused or cancelled the session.

    `status` is paused or cancelled, `recorded` says whether the log has it already.
    """

    def __init__(self, reason: str, *, status: str = "paused", recorded: bool = False) -> None:
        super().__init__(reason)
        self.status, self.recorded = status, recorded


class Idle(Leaving):
    """There is nothing to receive; the run goes on when something was sent. `recorded`: the log has it already."""

    def __init__(self, *, recorded: bool) -> None:
        super().__init__("nothing was sent")
        self.recorded = recorded
