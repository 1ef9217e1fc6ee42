"""What can be stored, and how: exactly, or refused with the path to what cannot be.

No input, no output, no state but the registry of classes. `docs/format.md` has the bytes.
"""

from __future__ import annotations

from perdure.values.blobs import Blobs, has_large_leaf
from perdure.values.codecs import decode, encode
from perdure.values.describe import describe
from perdure.values.exact import CONTAINERS, IMMUTABLE, is_immutable, same
from perdure.values.frame import Dictionary, address, named, seal, unseal
from perdure.values.messagepack import packed
from perdure.values.opaque import Opaque
from perdure.values.registry import allow, is_allowed, storable
from perdure.values.secret import Secret

__all__ = [
    "CONTAINERS",
    "IMMUTABLE",
    "Blobs",
    "Dictionary",
    "Opaque",
    "Secret",
    "address",
    "allow",
    "decode",
    "describe",
    "encode",
    "has_large_leaf",
    "is_allowed",
    "is_immutable",
    "named",
    "packed",
    "same",
    "seal",
    "storable",
    "unseal",
]
