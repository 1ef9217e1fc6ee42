"""The protocols by name. Each writes every storable value, and reads what it wrote, exactly.

MessagePack is the form that values have in memory, are compared in and are digested in. Every other protocol writes the
plain tree of those bytes, and what it reads becomes the same bytes again, so nothing depends on which one was used.
A protocol is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, Protocol, cast

from perdure import limits
from perdure.errors import DamageError, LimitError, ProtocolError
from perdure.values import messagepack
from perdure.values.count import is_too_many
from perdure.values.frame import CODEC_IDS
from perdure.values.wire import ENCODED, Logged, Tagged, pack_tree, unpack_tree

DEFAULT: Final = "msgpack"
PICKLE: Final = "pickle"
SCHEMAS: Final = ("protobuf", "capnp")
PROTOCOLS: Final = tuple(CODEC_IDS)

_MODULES: Final = {"json": "jsontext", "protobuf": "protobufs", "capnp": "capnproto", PICKLE: "pickles"}
_EXTRAS: Final = {"google": "protobuf", "capnp": "capnp"}


class Codec(Protocol):
    """A module that writes and reads plain trees."""

    def dumps(self, tree: Any) -> bytes:
        """The bytes of a plain tree, equal for equal trees."""

    def loads(self, data: bytes) -> Any:
        """The plain tree of the bytes. Raises DamageError or FormatNewerError."""


class Logs(Protocol):
    """A codec with a schema for whole logs."""

    def log(self, records: Iterable[Logged]) -> Iterator[bytes]:
        """The pieces of a file with these records."""


class Fields(Protocol):
    """A codec that finds one field without reading the rest."""

    def field(self, data: bytes, path: Sequence[str | int]) -> Any:
        """The plain tree at a path."""


def logs(protocol: str) -> Logs:
    """Of a protocol with a schema for whole logs. Raises ProtocolError for any other."""
    if protocol not in SCHEMAS:
        raise ProtocolError(f"there is no schema for a log in {protocol!r:.40}; there is one in: {', '.join(SCHEMAS)}")
    return cast("Logs", codec_named(protocol))


def codec_named(name: str) -> Codec:
    """The codec. Raises ProtocolError if there is none, or its extra is not installed."""
    if name not in _MODULES:
        raise ProtocolError(f"there is no protocol {name!r:.40}; there are: {', '.join(PROTOCOLS)}")
    try:
        return cast("Codec", import_module(f"perdure.values.{_MODULES[name]}"))
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise ProtocolError(f"the protocol {name} needs a package: pip install 'perdure[{extra}]'") from error


def check(protocol: str) -> str:
    """The name, if values can be written so. Raises ProtocolError."""
    if protocol != DEFAULT:
        codec_named(protocol)
    return protocol


def encode(value: Any, *, codec: str = DEFAULT, at: str = "$") -> bytes:
    """The bytes of `value`; a fresh process decodes them to the same type, value and order.

    Equal values give equal bytes. Raises UnstorableError with the path, which begins with `at`, to what cannot be
    stored exactly; LimitError beyond a bound (`limits.DEPTH_MAX` levels are always taken, plain lists and dicts up to
    255); ProtocolError. Safe from any thread; while another thread changes `value`, each
    container is taken as it is at one instant.
    """
    data = messagepack.encode(value, at=at)
    if len(data) > min(limits.ENCODED_NODES_MAX, limits.RECORD_BYTES_MAX):  # a value takes a byte at the least
        _check_large(data, at=at)
    return data if codec == DEFAULT else written(unpack_tree(data), codec=codec)


def _check_large(data: bytes, *, at: str) -> None:
    if len(data) > limits.RECORD_BYTES_MAX:
        raise LimitError(f"{at}: {len(data)} bytes encoded, the bound is {limits.RECORD_BYTES_MAX}")
    if is_too_many(data):
        raise LimitError(f"{at}: more than {limits.ENCODED_NODES_MAX} values")


def decode(data: bytes, *, codec: str = DEFAULT, pickled: bool = False) -> Any:
    """The value that `encode` made these bytes of. Imports and calls nothing that the bytes name.

    Raises DamageError if they are not such bytes, FormatNewerError if a newer perdure made them, TagError if a
    registered class does not take the fields that were stored, ProtocolError for a protocol that cannot be read here:
    pickle only if `pickled`, which is for bytes that are known to be one's own. A class that is not known here comes
    back as Opaque.
    """
    return messagepack.decode(data if codec == DEFAULT else plain(data, codec=codec, pickled=pickled))


def field(data: bytes, path: Sequence[str | int], *, codec: str) -> Any:
    """The value at `path` in an encoded one: keys of dicts and indexes of lists, from the outside in.

    In capnp nothing else is decoded; in every other protocol all of it is. Raises KeyError or IndexError if there is
    nothing, and as `decode` does.
    """
    if codec == "capnp":
        return messagepack.decode(pack_tree(cast("Fields", codec_named(codec)).field(data, path)))
    value = decode(data, codec=codec)
    for step in path:
        value = value[step]
    return value


def written(tree: Any, *, codec: str) -> bytes:
    """A plain tree in another protocol than MessagePack. Raises LimitError if it takes too much there."""
    try:
        data = codec_named(codec).dumps(tree)
    except RecursionError as error:
        raise LimitError("nested deeper than this thread's stack bears") from error
    if len(data) > limits.OTHER_BYTES_MAX:
        raise LimitError(f"{len(data)} bytes as {codec}, the bound is {limits.OTHER_BYTES_MAX}")
    return data


def fitted(tree: Any, data: bytes, *, codec: str) -> tuple[str, bytes]:
    """The protocol and the bytes of a plain tree whose MessagePack is `data`: what takes too much stays in it."""
    try:
        return codec, written(tree, codec=codec)
    except LimitError:
        return DEFAULT, data


def plain(data: bytes, *, codec: str, pickled: bool = False) -> bytes:
    """The MessagePack of bytes in another protocol, nothing in it decoded. Raises as `decode` does."""
    if codec == PICKLE and not pickled:
        raise ProtocolError(
            "a value in pickle is read only where the store was opened with protocol='pickle' and keys; nothing was "
            "unpickled"
        )
    if len(data) > limits.OTHER_BYTES_MAX:
        raise DamageError(f"not a stored value: {len(data)} bytes as {codec}, which is never written")
    try:
        return pack_tree(codec_named(codec).loads(data))
    except RecursionError as error:
        raise DamageError(f"not a stored value: {error}") from error
    except (TypeError, ValueError) as error:
        raise DamageError(f"not a stored value: {error}") from error


def inner(data: bytes) -> Any:
    """What stands in a plain tree for bytes that are an encoded value; the bytes themselves if they are none."""
    try:
        tree = unpack_tree(data)
    except DamageError:
        return data
    return Tagged(ENCODED, tree) if pack_tree(tree) == data else data
