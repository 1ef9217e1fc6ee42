"""What can be stored, and how: exactly, or refused with the path to what cannot be.

No input, no output, no state but the registry of classes. `docs/format.md` has the bytes.
"""

from __future__ import annotations

from perdure.values import outward
from perdure.values.absent import AbsentValue, spare
from perdure.values.blobs import Blobs, has_large_leaf
from perdure.values.codecs import DEFAULT, PICKLE, PROTOCOLS, decode, encode, field, fitted, inner, logs, plain, written
from perdure.values.codecs import check as check_protocol
from perdure.values.describe import describe
from perdure.values.exact import CONTAINERS, IMMUTABLE, is_immutable, same
from perdure.values.frame import Dictionary, address, codec_of, dictionary_named, named, seal, unseal
from perdure.values.guard import ALLOW, MASK, REFUSE, Guard
from perdure.values.messagepack import packed
from perdure.values.opaque import Opaque
from perdure.values.registry import allow, inert, is_allowed, storable
from perdure.values.secret import Secret
from perdure.values.wire import unpack_tree as tree_of

__all__ = [
    "ALLOW",
    "CONTAINERS",
    "DEFAULT",
    "IMMUTABLE",
    "MASK",
    "PICKLE",
    "PROTOCOLS",
    "REFUSE",
    "AbsentValue",
    "Blobs",
    "Dictionary",
    "Guard",
    "Opaque",
    "Secret",
    "address",
    "allow",
    "check_protocol",
    "codec_of",
    "decode",
    "describe",
    "dictionary_named",
    "encode",
    "field",
    "fitted",
    "has_large_leaf",
    "inert",
    "inner",
    "is_allowed",
    "is_immutable",
    "logs",
    "named",
    "outward",
    "packed",
    "plain",
    "same",
    "seal",
    "spare",
    "storable",
    "tree_of",
    "unseal",
    "written",
]
