"""The body frame: what lies around a value's bytes where they are stored. Compression, lengths, format version.

It knows neither values nor records. Whatever a frame claims, unsealing it takes no more memory than its bounds allow.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import zstandard

from perdure import limits
from perdure.errors import DamageError, FormatNewerError, LimitError

VERSION: Final = 1
MAGIC: Final = b"\xd5P"
DIGEST_BYTES: Final = 32
CODEC_IDS: Final = {"msgpack": 1, "json": 2, "protobuf": 3, "capnp": 4, "pickle": 5}
PLAIN, ZSTD, ZSTD_DICTIONARY = 0, 1, 2
LEVEL: Final = 3
"""zstd's level: on deltas of 3 KB it costs little more than level 1 and is never larger; see the decision record."""

LARGE_LEVEL: Final = 1
"""The level for bodies over `limits.LARGE_BYTES`: a third less time, which a save of such a body is made of, for a
quarter more bytes."""

CHUNK_LEVEL: Final = 6
"""The level for chunks, which are made off the save path: 8 % smaller than at level 3 for three times the time."""

LARGE_CHUNK_BYTES: Final = 2 * limits.CHUNK_BYTES
"""Longer chunks hold one large value, which a save may have to wait for: `LARGE_LEVEL`."""

_PADDED_BYTES: Final = limits.EXPANDED_BYTES // limits.EXPANSION_COUNT_MAX
"""Only a longer payload can be padded, so as not to expand too much."""

_HEADER: Final = struct.Struct(">2sBBBBHII")
_BLOB: Final = struct.Struct(f">II{DIGEST_BYTES}s")
_CODECS: Final = {number: name for name, number in CODEC_IDS.items()}


class _Pool:
    """The contexts of zstd for one dictionary, or for none: each serves one call at a time, from whatever thread.

    Each has a prepared dictionary of its own: one that is shared is prepared at its first use, which two threads must
    not do at once.
    """

    __slots__ = ("_content", "_idle_compressors", "_idle_decompressors", "_level")

    def __init__(self, content: bytes | None, *, level: int = LEVEL) -> None:
        self._content, self._level = content, level
        self._idle_compressors: list[zstandard.ZstdCompressor] = []
        self._idle_decompressors: list[zstandard.ZstdDecompressor] = []

    def compress(self, data: bytes) -> bytes:
        """One zstd frame with checksum and content size."""
        try:
            context = self._idle_compressors.pop()
        except IndexError:
            dictionary = self._dictionary()
            if dictionary is not None:
                dictionary.precompute_compress(level=self._level)
            context = zstandard.ZstdCompressor(
                level=self._level, dict_data=dictionary, write_checksum=True, write_content_size=True
            )
        compressed = context.compress(data)
        self._idle_compressors.append(context)
        return compressed

    def decompress(self, payload: bytes) -> bytes:
        """The data of the zstd frame at the beginning; takes as much memory as it declares. Raises ZstdError."""
        try:
            context = self._idle_decompressors.pop()
        except IndexError:
            context = zstandard.ZstdDecompressor(dict_data=self._dictionary())
        data = context.decompress(payload, allow_extra_data=len(payload) > _PADDED_BYTES)
        self._idle_decompressors.append(context)
        return data

    def _dictionary(self) -> zstandard.ZstdCompressionDict | None:
        if self._content is None:
            return None
        return zstandard.ZstdCompressionDict(self._content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


_plain_pool: Final = _Pool(None)
_large_pool: Final = _Pool(None, level=LARGE_LEVEL)
_chunk_pool: Final = _Pool(None, level=CHUNK_LEVEL)


class Dictionary:
    """The end of a chunk's data, prepared to compress what resembles it. Safe from any thread.

    `digest` is the address of the chunk, `content` the last `limits.DICTIONARY_BYTES` of its data.
    """

    __slots__ = ("content", "digest", "large", "pool")

    def __init__(self, digest: bytes, content: bytes) -> None:
        if len(digest) != DIGEST_BYTES:
            raise ValueError(f"an address has {DIGEST_BYTES} bytes, not {len(digest)}")
        self.digest, self.content = digest, content[-limits.DICTIONARY_BYTES :]
        self.pool, self.large = _Pool(self.content), _Pool(self.content, level=LARGE_LEVEL)

    @classmethod
    def from_chunk(cls, chunk: bytes, *, digest: bytes | None = None) -> Dictionary:
        """The dictionary that a chunk, a frame that needs none itself, serves as. Raises DamageError.

        `digest` is its address, if the caller has checked that it is.
        """
        return cls(digest or address(chunk), unseal(chunk)[1])

    def prepare(self) -> Dictionary:
        """Itself, ready to compress at once: what the first use would take a millisecond for."""
        self.pool.compress(b"")
        return self


class Blob(NamedTuple):
    """A piece of the data of a frame that is in a chunk of its own: where it begins, how long it is, its address."""

    begin: int
    length: int
    digest: bytes


class Opened(NamedTuple):
    """A frame without its header: codec, compression, length of the data, the dictionary's address, blobs, payload."""

    codec: str
    compression: int
    length: int
    dictionary: bytes | None
    blobs: tuple[Blob, ...]
    payload: bytes

    @property
    def rest(self) -> int:
        """The length of the data without its blobs."""
        return self.length - sum(blob.length for blob in self.blobs)


def address(chunk: bytes) -> bytes:
    """The address of a chunk: SHA-256 of its frame."""
    return hashlib.sha256(chunk).digest()


def seal(
    data: bytes,
    *,
    codec: str,
    dictionary: Dictionary | None = None,
    chunk: bool = False,
    blobs: Sequence[Blob] = (),
) -> bytes:
    """A frame around `data`, compressed if that makes it smaller; harder for a chunk, which has no dictionary.

    `blobs` are left out of it, in order: each is the data of the chunk that is named in its place. Raises LimitError
    over `limits.RECORD_BYTES_MAX`.
    """
    length = len(data)
    if length > limits.RECORD_BYTES_MAX:
        raise LimitError(f"a body of {length} bytes, the bound is {limits.RECORD_BYTES_MAX}")
    rest = b"".join(_between(data, blobs)) if blobs else data
    compression, name, payload = _smallest(rest, dictionary, chunk=chunk)
    head = _HEADER.pack(MAGIC, VERSION, CODEC_IDS[codec], compression, 0, len(blobs), length, len(payload))
    table = b"".join([_BLOB.pack(*blob) for blob in blobs]) if blobs else b""
    return b"".join((head, name, table, payload))


def _between(data: bytes, blobs: Sequence[Blob]) -> Iterator[memoryview]:
    """What is before the first of them, between each two, and after the last."""
    view, at = memoryview(data), 0
    for blob in blobs:
        yield view[at : blob.begin]
        at = blob.begin + blob.length
    yield view[at:]


def _smallest(data: bytes, dictionary: Dictionary | None, *, chunk: bool) -> tuple[int, bytes, bytes]:
    length = len(data)
    if length < limits.COMPRESS_BYTES_MIN:
        return PLAIN, b"", data
    if dictionary is not None:
        pool = dictionary.large if length > limits.LARGE_BYTES else dictionary.pool
        compression, name = ZSTD_DICTIONARY, dictionary.digest
    else:
        is_large = length > (LARGE_CHUNK_BYTES if chunk else limits.LARGE_BYTES)
        pool = _large_pool if is_large else _chunk_pool if chunk else _plain_pool
        compression, name = ZSTD, b""
    payload = pool.compress(data)
    if length > limits.EXPANDED_BYTES:
        payload = payload.ljust(length // limits.EXPANSION_COUNT_MAX + 1, b"\0")
    return (compression, name, payload) if len(name) + len(payload) < length else (PLAIN, b"", data)


def unseal(
    frame: bytes,
    *,
    dictionary: Callable[[bytes], Dictionary] | None = None,
    chunk: Callable[[bytes], bytes] | None = None,
) -> tuple[str, bytes]:
    """Codec and data of a frame; `dictionary` finds a dictionary by its address and `chunk` a chunk; both may raise.

    Raises FormatNewerError for a newer format, DamageError for anything else that `seal` does not make, which names the
    chunk if it is a blob's.
    """
    found = _opened(frame)
    if found.compression == PLAIN:
        data = found.payload
    else:
        pool = _plain_pool if found.dictionary is None else _find(found.dictionary, dictionary).pool
        data = _decompress(pool, found.payload, found.rest)
    if len(data) != found.rest:
        raise DamageError(f"a frame with {len(data)} bytes of data, its header says {found.rest}")
    return found.codec, _joined(data, found.blobs, chunk) if found.blobs else data


def _joined(rest: bytes, blobs: tuple[Blob, ...], chunk: Callable[[bytes], bytes] | None) -> bytes:
    """The data: the rest, and each blob in its place."""
    view, taken, parts = memoryview(rest), 0, list[bytes | memoryview]()
    for blob in blobs:
        more = blob.begin - sum(map(len, parts))
        parts += (view[taken : taken + more], _blob(blob, chunk))
        taken += more
    return b"".join((*parts, view[taken:]))


def _blob(blob: Blob, chunk: Callable[[bytes], bytes] | None) -> bytes:
    name = blob.digest.hex()
    if chunk is None:
        raise DamageError(f"a frame that needs the chunk {name}, and none can be had here")
    frame = chunk(blob.digest)
    if address(frame) != blob.digest:
        raise DamageError(f"chunk {name}: its bytes are not what was written")
    _, data = unseal(frame)
    if len(data) != blob.length:
        raise DamageError(f"chunk {name}: {len(data)} bytes of data, whoever needs it says {blob.length}")
    return data


def codec_of(frame: bytes) -> str:
    """The codec of a frame's data. Raises as `unseal` does."""
    return _opened(frame).codec


def named(frame: bytes) -> list[bytes]:
    """The addresses of the chunks that a frame needs to be read: dictionary and blobs. Raises as `unseal` does."""
    found = _opened(frame)
    return [*([] if found.dictionary is None else [found.dictionary]), *(blob.digest for blob in found.blobs)]


def dictionary_named(frame: bytes) -> bytes | None:
    """The address of the dictionary that a frame needs, if it needs one. Raises as `unseal` does."""
    return _opened(frame).dictionary


def _opened(frame: bytes) -> Opened:
    """What the header says, each field checked, and what follows it."""
    if len(frame) < _HEADER.size or frame[:2] != MAGIC:
        raise DamageError("not a frame: it does not begin as one")
    _, version, codec, compression, cipher, count, length, size = _HEADER.unpack_from(frame)
    if version > VERSION:
        raise FormatNewerError(f"a frame of format version {version}; this perdure reads up to {VERSION}")
    _check("format version", version, is_written=version == VERSION)
    _check("codec", codec, is_written=codec in _CODECS)
    _check("compression", compression, is_written=compression in (PLAIN, ZSTD, ZSTD_DICTIONARY))
    _check("cipher", cipher, is_written=cipher == 0)
    _check("length", length, is_written=length <= limits.RECORD_BYTES_MAX)
    table = _HEADER.size + (DIGEST_BYTES if compression == ZSTD_DICTIONARY else 0)
    begin = table + _BLOB.size * count
    _check("payload length", size, is_written=len(frame) == begin + size)
    rest_max = length if compression == PLAIN else max(limits.EXPANDED_BYTES, size * limits.EXPANSION_COUNT_MAX)
    name = frame[_HEADER.size : table] or None
    blobs = tuple(Blob(*found) for found in _BLOB.iter_unpack(frame[table:begin]))
    _check_blobs(blobs, length)
    _check("length", length, is_written=length - sum(blob.length for blob in blobs) <= rest_max)
    return Opened(_CODECS[codec], compression, length, name, blobs, frame[begin:])


def _check_blobs(blobs: tuple[Blob, ...], length: int) -> None:
    """Whether they are one after another, and inside of the data."""
    at = 0
    for blob in blobs:
        _check("blob's place", blob.begin, is_written=blob.begin >= at and blob.length > 0)
        at = blob.begin + blob.length
    _check("blob's end", at, is_written=at <= length)


def _check(what: str, found: int, *, is_written: bool) -> None:
    if not is_written:
        raise DamageError(f"a frame with a {what} of {found}, which is never written")


def _find(digest: bytes, dictionary: Callable[[bytes], Dictionary] | None) -> Dictionary:
    if dictionary is None:
        raise DamageError(f"a frame that needs the dictionary {digest.hex()}, and none can be had here")
    found = dictionary(digest)
    if found.digest != digest:
        raise DamageError(f"a frame that needs the dictionary {digest.hex()} was given {found.digest.hex()}")
    return found


def _decompress(pool: _Pool, payload: bytes, length: int) -> bytes:
    """The data, if it is as long as the header says; never allocates more than that."""
    try:
        declared = zstandard.frame_content_size(payload)
        if declared != length:
            raise DamageError(f"a frame whose payload declares {declared} bytes, its header says {length}")
        return pool.decompress(payload)
    except zstandard.ZstdError as error:
        raise DamageError(f"a frame whose payload cannot be decompressed: {error}") from error
