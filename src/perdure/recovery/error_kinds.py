"""Errors by kind: what may pass by itself, what a model said wrongly, what a tool could not do, what nothing helps.

Classes of other packages are known by their names, so that none of them is imported; what a server asks for is read
from the error as those packages leave it there. It decides nothing.
"""

from __future__ import annotations

import email.utils
import errno
import json
from collections.abc import Iterator, Mapping
from email.message import Message
from typing import Any, Final

from perdure import clock, limits
from perdure.errors import PerdureError, RecordedError

TRANSIENT, INVALID_OUTPUT, TOOL_ERROR, NO_PROGRESS, FATAL = KINDS = (
    "transient",
    "invalid_output",
    "tool_error",
    "no_progress",
    "fatal",
)

_TRANSIENT: Final = frozenset(
    {
        *("APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError", "OverloadedError"),
        *("ServiceUnavailableError", "Timeout", "TimeoutException", "ConnectTimeout", "ReadTimeout", "WriteTimeout"),
        *("PoolTimeout", "ConnectError", "ReadError", "WriteError", "RemoteProtocolError", "NetworkError"),
        *("TransportError", "ChunkedEncodingError", "IncompleteRead", "RemoteDisconnected", "ServerDisconnectedError"),
        *("ClientConnectionError", "ClientConnectorError", "ClientOSError", "URLError", "TooManyRequests"),
        *("ConnectionError", "TimeoutError", "MaxRetryError", "NewConnectionError", "EndpointConnectionError"),
        *("gaierror", "SMTPServerDisconnected"),
        *("ResourceExhausted", "ServiceUnavailable", "DeadlineExceeded", "ThrottlingException"),
        *("ModelConnectionError", "ModelTimeoutError", "ModelRequestTimeout", "ModelRateLimitError"),
        *("ModelUnavailableError", "ModelOverloadedError", "ModelServerError"),
    }
)
_INVALID: Final = frozenset(
    {
        *("ValidationError", "UnexpectedModelBehavior", "OutputParserException", "LengthFinishReasonError"),
        *("ToolRetryError", "InvalidOutputError", "ContentFilterError", "OutputTokenLimitExceeded"),
    }
)
_FATAL: Final = frozenset(
    {
        *("AuthenticationError", "PermissionDeniedError", "UserError"),
        *("ModelAuthenticationError", "ModelNotFoundError", "ModelQuotaExceededError"),
    }
)
_PASSING_ERRNO: Final = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
_PASSING_STATUS: Final = frozenset({408, 409, 425, 429})


def kind_of(error: BaseException, *, of_action: bool) -> str:
    """The kind of an error: of an action, or (`of_action` False) of the agent's own code.

    An error of the agent's own code that is of no other kind is fatal: the same code would do the same.
    """
    status = status_of(error)
    names = _names(error)
    if status in (401, 403) or names & _FATAL or isinstance(error, MemoryError | RecursionError):
        return FATAL
    if status in _PASSING_STATUS or (status is not None and status >= 500):
        return TRANSIENT
    if isinstance(error, ConnectionError | TimeoutError) or (names & _TRANSIENT and status is None):
        return TRANSIENT
    if isinstance(error, OSError) and error.errno in _PASSING_ERRNO:
        return TRANSIENT
    if isinstance(error, json.JSONDecodeError) or names & _INVALID:
        return INVALID_OUTPUT
    is_own = isinstance(error, PerdureError) and not isinstance(error, RecordedError)
    return TOOL_ERROR if of_action and not is_own else FATAL


def _names(error: BaseException) -> frozenset[str]:
    """The names of the classes that the error is of; of a recorded one, that of its class."""
    own = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, RecordedError):
        own.add(error.kind.rpartition(".")[2])
    return frozenset(own)


def status_of(error: BaseException) -> int | None:
    """The HTTP status that the error tells of, however its package calls it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            found = getattr(holder, name, None)
            if type(found) is int and 100 <= found <= 599:
                return found
    return None


def retry_after_s(error: BaseException) -> float:
    """How long the server asked to be left alone, in seconds; 0 if it did not. At most `limits.RETRY_AFTER_S_MAX`."""
    if isinstance(told_s := getattr(error, "retry_after_s", None), int | float):
        return min(max(0.0, told_s), limits.RETRY_AFTER_S_MAX)
    for headers in _headers(error):
        for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            found = next((value for key, value in headers.items() if str(key).lower() == name), None)
            if found is not None:
                return min(_seconds(str(found), unit_s), limits.RETRY_AFTER_S_MAX)
    return 0.0


def _headers(error: BaseException) -> Iterator[Mapping[Any, Any] | Message]:
    for holder in (error, getattr(error, "response", None), getattr(error.__cause__, "response", None)):
        headers = getattr(holder, "headers", None)
        if isinstance(headers, Mapping | Message):
            yield headers


def _seconds(text: str, unit_s: float) -> float:
    try:
        return max(0.0, float(text) * unit_s) if text.replace(".", "", 1).isdigit() else _until(text)
    except ValueError:
        return 0.0


def _until(text: str) -> float:
    when = email.utils.parsedate_to_datetime(text)
    return max(0.0, when.timestamp() - clock.now_us() / 1e6)
