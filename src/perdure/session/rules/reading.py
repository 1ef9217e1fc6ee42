"""What the code has been given of a stream: chunks in order, as a replay would give them, and how it ended.

Each chunk is encoded as it comes and decoded as it is handed out. Where chunks come from is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure import limits, values
from perdure.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.log.action import Outcome
    from perdure.session.rules.request import Ended


class Reading:
    """The chunks of one stream, those that were read and those that the code has."""

    def __init__(
        self, name: str, combine: Callable[[list[Any]], Any] | None, guard: values.Guard = values.ALLOW
    ) -> None:
        self._name, self._combine, self._guard = name, combine, guard
        self._chunks: list[bytes] = []
        self._bytes = 0
        self.handed = 0
        """How many the code has been given."""
        self.outcome: Outcome | None = None
        """How it ended, once that is recorded."""
        self.live: BaseException | None = None
        self.left = False
        """The code has left it: it reads no more."""
        self.over = False
        """The code has come to its end."""

    # --- from the function, or the log --------------------------------------------------------------------------------

    def take(self, chunk: Any) -> None:
        """One more chunk. Raises `UnstorableError`, and `LimitError` when the stream gives too much."""
        at = f"chunk {len(self._chunks)} of {self._name}"
        data = self._guard.kept(values.encode(chunk, at=at), at=at).data
        if self._bytes + len(data) > limits.STREAM_BYTES_MAX:
            raise LimitError(f"{at}: with it the stream is longer than {limits.STREAM_BYTES_MAX} bytes")
        self._bytes += len(data)
        self._chunks.append(data)

    def end(self, ended: Ended) -> None:
        """How it ended, which is recorded."""
        self.outcome, self.live = ended.outcome, ended.error

    def recall(self, outcome: Outcome) -> None:
        """It is recorded: all chunks are there at once."""
        self._chunks = [values.encode(chunk) for chunk in given(outcome)]
        self.outcome = outcome

    # --- to the code --------------------------------------------------------------------------------------------------

    @property
    def is_ahead(self) -> bool:
        """Whether there is a chunk that the code does not have."""
        return self.handed < len(self._chunks)

    def hand(self) -> Any:
        """The next chunk, for the code."""
        self.handed += 1
        return values.decode(self._chunks[self.handed - 1])

    def read(self, *, handed: bool = False) -> list[Any]:
        """All chunks that were read, or only those that the code has."""
        return [values.decode(chunk) for chunk in (self._chunks[: self.handed] if handed else self._chunks)]

    def whole(self) -> Any:
        """What the function returned, if the code came to its end and it did; else what is made of the chunks."""
        if self.over and (found := returned(self.outcome)) is not None:
            return found
        chunks = self.read(handed=True)
        return chunks if self._combine is None else self._combine(chunks)


def given(outcome: Outcome) -> list[Any]:
    """The chunks of an outcome. A result that no stream gave (a person settled it) is a list of them, or one."""
    if outcome.how != "result":
        return values.decode(outcome.stream.given) if outcome.stream is not None and outcome.stream.given else []
    value = values.decode(outcome.value)
    if outcome.stream is not None or type(value) is list:
        return value  # type: ignore[no-any-return]
    return [] if value is None else [value]


def returned(outcome: Outcome | None) -> Any:
    """What the generator returned; None for nothing."""
    if outcome is None or outcome.stream is None or outcome.stream.returned is None:
        return None
    return values.decode(outcome.stream.returned)
