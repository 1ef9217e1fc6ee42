"""The log: records, their chain, and what follows from them. Pure; it reads and writes nothing."""

from perdure.log.origin import Base
from perdure.log.record import GENESIS, KIND_NAMES, KINDS, Record, chain_digest, chained, is_stub, stub, verified

__all__ = ["GENESIS", "KINDS", "KIND_NAMES", "Base", "Record", "chain_digest", "chained", "is_stub", "stub", "verified"]
