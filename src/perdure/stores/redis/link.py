"""The way to the server: connections, what is sent again when one breaks, and for how long that is tried.

A write that may have been done is sent again only with what shows whether it was: see `Call`. It knows no operation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from redis.exceptions import MovedError, NoScriptError, RedisError, ResponseError

from perdure import clock
from perdure.errors import LimitError, PerdureError, ProcessForkedError, StoreFailedError
from perdure.stores import refusals
from perdure.stores.redis.failures import LOST, is_denied, is_elsewhere, is_for_now, meaning, unproved, unreachable
from perdure.stores.redis.scripts import Call, Word
from perdure.stores.redis.target import Target
from perdure.stores.redis.verdicts import is_done
from perdure.stores.redis.wire import Wire, packed

Reply: TypeAlias = Any
"""What the server answers to one command: bytes, a number, a list of these, None; or its error, not raised."""

Command: TypeAlias = Sequence[Word]

_WAVE_COUNT: Final = 256
_WAVE_BYTES: Final = 1 << 20
_CALL_BYTES_MAX: Final = 1000 << 20
"""The server hangs up on a client that has sent 1 GB which it cannot do anything about yet."""

_PAUSE_S: Final = 0.01
_PAUSE_S_MAX: Final = 0.25


class Link:
    """Connections to the server of this target, for any number of threads.

    `proof` is what is sent behind a write, and tells that it is where it must be before it is acknowledged. `denied`
    says why nothing may be written, if that is so: a script that may not do all of its work would stop in its middle.
    `argument_bytes_max` is what the server takes of one argument; it hangs up on who sends more.
    """

    def __init__(self, target: Target) -> None:
        self.target, self.url = target, target.url
        self._place = target.place.encode()
        self.proof: Command | None = None
        self.denied = ""
        self.argument_bytes_max = 512 << 20
        self._idle: list[Wire] = []
        self.moved_to: tuple[str, int] | None = None
        """Where the server said that the place is now."""
        self._is_closed = False
        self._pid = os.getpid()
        self._is_owing = False
        """Whether something is written that is not yet where it must be: nothing is told before it is."""

    def check(self) -> None:
        """Raises in a process that was forked from the one that opened the store, and when it is closed."""
        if not self.is_ours():
            raise ProcessForkedError(f"{self.url}: was opened before os.fork(); open it again in this process")
        if self._is_closed:
            raise refusals.closed(self.url)

    def is_ours(self) -> bool:
        """Whether this process is the one that opened the store."""
        return os.getpid() == self._pid

    def close(self) -> None:
        """Gives the connections up, for good."""
        self._is_closed = True
        self._drop()

    def ask(self, call: Call) -> Any:
        """What a script that only reads tells, or raises."""
        self.check()
        self._pay()
        (reply,) = self._settled([call])
        return self._told(call, reply)

    def write(self, calls: Sequence[Call]) -> list[Any]:
        """For each of these calls what it tells; or the error that it raises, which is not raised here."""
        self.check()
        if self.denied:
            raise StoreFailedError(f"{self.url}: {self.denied}; nothing was written")
        self._pay()
        told = []
        for call, reply in zip(calls, self._settled(calls), strict=True):
            try:
                told.append(self._told(call, reply))
            except Exception as refusal:  # noqa: BLE001 - the verdict of this one, told to whoever wrote it
                told.append(refusal)
        return told

    def look(self, *commands: Command) -> list[Reply]:
        """The same as `say`, for commands that look at sessions; an error of the server is raised."""
        self.check()
        self._pay()
        replies = self.say(*commands)
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise meaning(reply, url=self.url)
        return replies

    def say(self, *commands: Command) -> list[Reply]:
        """The server's answers to these commands, which must do no more when they are done twice.

        An error of the server is one of the answers; raises `StoreFailedError` when it cannot be reached.
        """
        self.check()
        patience = _Patience(self.target.busy_s)
        while True:
            try:
                with self.connection() as connection:
                    replies = _exchange(connection, commands)
            except LOST as error:
                self._bear(error, patience)
                continue
            passing = next((reply for reply in replies if isinstance(reply, ResponseError) and is_for_now(reply)), None)
            if passing is None:
                return replies
            self._bear(passing, patience)

    def connection(self) -> _Lent:
        """A connection for this thread. One that was left in the middle of something is not used again."""
        return _Lent(self)

    def lend(self, host: tuple[str, int] | None) -> Wire:
        """One that nobody uses, or a new one; of the server, or of another that it named."""
        try:
            return self._idle.pop()
        except IndexError:
            return self.target.connection(*(host or ()))

    def take_back(self, connection: Wire, host: tuple[str, int] | None, *, is_whole: bool) -> None:
        """It is used again, if it can be."""
        if is_whole and not self._is_closed and host == self.moved_to:
            self._idle.append(connection)
        else:
            connection.disconnect()

    def _drop(self) -> None:
        """Gives up the connections that nobody uses just now."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().disconnect()

    def _told(self, call: Call, reply: Reply) -> Any:
        if isinstance(reply, PerdureError):
            raise reply
        if isinstance(reply, RedisError):
            raise meaning(reply, url=self.url) from reply
        return call.tells(reply)

    def _settled(self, calls: Sequence[Call]) -> list[Reply]:
        """The answer to each, in the order given; an error of ours for one that could not be sent in time."""
        replies: dict[Call, Reply] = {}
        for call in calls:
            if call.longest > self.argument_bytes_max or call.size > _CALL_BYTES_MAX:
                replies[call] = _too_long(call, self.argument_bytes_max, url=self.url)
        waiting, patience = [call for call in calls if call not in replies] if replies else [*calls], None
        while waiting:
            trouble: Exception | None = None
            try:
                with self.connection() as connection:
                    for wave in _waves(waiting) if len(waiting) > 1 else (waiting,):
                        trouble = self._pass(connection, wave, replies) or trouble
            except LOST as error:
                trouble = error
            waiting = [call for call in waiting if call not in replies]
            if waiting and trouble is not None:
                patience = patience or _Patience(self.target.busy_s)
                try:
                    self._bear(trouble, patience, written=any(call.script.writes and call.sent for call in waiting))
                except PerdureError as error:
                    replies |= dict.fromkeys(waiting, error)
                    break
        return [replies[call] for call in calls]

    def _pass(self, connection: Wire, wave: list[Call], replies: dict[Call, Reply]) -> Exception | None:
        """Sends these, and notes what they come to. Why some are to be sent again, if it is worth waiting for."""
        commands: list[Command] = [call.command(self._place) for call in wave]
        proof: tuple[Command, ...] = ()
        if self.proof is not None and any(call.script.writes for call in wave):
            proof = self._proof()
        for call in wave:
            call.sent = True
        answers = _exchange(connection, [*commands, *proof] if proof else commands)
        if proof:  # it stands for all that was written before
            self._is_owing = not _is_proved(proof[-1], answers[-1])
        trouble, unknown = None, set()
        for call, answer in zip(wave, answers, strict=False):
            if isinstance(answer, NoScriptError):
                unknown.add(call.script.text)
            elif isinstance(answer, ResponseError) and is_for_now(answer):
                trouble = answer
            elif proof and self._is_owing and is_done(answer):
                replies[call] = unproved(self.url)
            else:
                replies[call] = answer
        if unknown:
            _exchange(connection, [("SCRIPT", "LOAD", text) for text in unknown])
        return trouble

    def _proof(self) -> tuple[Command, ...]:
        """The server looks at what this connection wrote last: that must be something, even if all was done before."""
        return () if self.proof is None else (("HSET", f"{self.target.place}:place", "proved", 1), self.proof)

    def _pay(self) -> None:
        """Before anything is told of what was written: it must be where it has to be."""
        if self._is_owing:
            if not _is_proved(self.proof, self.say(*self._proof())[-1]):
                raise unproved(self.url)
            self._is_owing = False

    def _bear(self, error: Exception, patience: _Patience, *, written: bool = False) -> None:
        """Waits a little, and then there is another attempt; or raises why there is none."""
        if is_denied(error):
            raise meaning(error, url=self.url) from error
        if patience.is_over():
            raise unreachable(error, url=self.url, busy_s=self.target.busy_s, written=written) from error
        if isinstance(error, MovedError) and self.moved_to is None:
            self.moved_to = (error.host, error.port)
        elif is_elsewhere(error) or isinstance(error, LOST):
            self.moved_to = None  # the server of the URL says where it is now
            patience.pause()
        else:
            patience.pause()
            return
        self._drop()


class _Lent:
    """A connection, for as long as the `with` takes."""

    __slots__ = ("_connection", "_host", "_link")

    def __init__(self, link: Link) -> None:
        self._link, self._host = link, link.moved_to

    def __enter__(self) -> Wire:
        self._connection = self._link.lend(self._host)
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._link.take_back(self._connection, self._host, is_whole=kind is None)


class _Patience:
    """How long something is tried again, counted from when it first went wrong."""

    def __init__(self, busy_s: float) -> None:
        self._busy_s, self._pause_s, self._since = busy_s, _PAUSE_S, 0.0

    def is_over(self) -> bool:
        """Whether it was tried for long enough."""
        now = clock.monotonic_s()
        self._since = self._since or now
        return now - self._since >= self._busy_s

    def pause(self) -> None:
        """Until the next attempt: longer each time."""
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)


def _exchange(connection: Wire, commands: Sequence[Command]) -> list[Reply]:
    """Sends all, then reads all."""
    pieces: Sequence[Any] = [packed(command) for command in commands]
    if None in pieces:
        pieces = connection.pack_commands(commands)
    elif len(pieces) > 1:
        pieces = [b"".join(pieces)]
    connection.send_packed_command(pieces)
    answers: list[Reply] = []
    for _ in commands:
        try:
            answers.append(connection.read_response())
        except ResponseError as error:
            answers.append(error)
    return answers


def _is_proved(proof: Command | None, answer: Reply) -> bool:
    """Whether as many have the write as were asked for."""
    wanted = proof[1:-1] if proof else ()
    told = answer if isinstance(answer, list) else [answer]
    return all(isinstance(count, int) and count >= int(least) for count, least in zip(told, wanted, strict=False))


def _too_long(call: Call, argument_bytes_max: int, *, url: str) -> LimitError:
    what, setting = (call.size, "what a client may send")
    if call.longest > argument_bytes_max:
        what, setting = (call.longest, "proto-max-bulk-len")
    return LimitError(f"{url}: {what:,} bytes are more than this server takes at once ({setting}); nothing was written")


def _waves(calls: list[Call]) -> Iterator[list[Call]]:
    """Some at a time, of each session one: if one must be sent again, none of its session was done after it."""
    wave: list[Call] = []
    sessions: set[bytes] = set()
    size = 0
    for call in calls:
        if wave and (call.session in sessions or len(wave) >= _WAVE_COUNT or size + call.size > _WAVE_BYTES):
            yield wave
            wave, sessions, size = [], set(), 0
        wave.append(call)
        sessions |= {call.session} - {b""}
        size += call.size
    if wave:
        yield wave
