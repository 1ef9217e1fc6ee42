"""What can be stored, and how: exactly, or refused with the path to what cannot be.

No input, no output, no state but the registry of classes. `docs/format.md` has the bytes.
"""

from __future__ import annotations

from perdure.values.codecs import decode, encode
from perdure.values.describe import describe
from perdure.values.exact import CONTAINERS, IMMUTABLE, is_immutable, same
from perdure.values.frame import Dictionary, address, dictionary_named, seal, unseal
from perdure.values.messagepack import packed
from perdure.values.opaque import Opaque
from perdure.values.registry import allow, is_allowed, storable

__all__ = [
    "CONTAINERS",
    "IMMUTABLE",
    "Dictionary",
    "Opaque",
    "address",
    "allow",
    "decode",
    "describe",
    "dictionary_named",
    "encode",
    "is_allowed",
    "is_immutable",
    "packed",
    "same",
    "seal",
    "storable",
    "unseal",
]
