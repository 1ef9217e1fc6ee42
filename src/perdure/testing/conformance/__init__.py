"""What every store must do, as a class of checks that a store joins by saying how it is opened.

    class TestMyStore(DurableStoreConformance):
        def open(self, place: Path) -> Store:
            return MyStore(place / "store")

pytest runs it; each check gets an empty folder. The class must be importable, as some checks start processes. A store
that keeps nothing beyond its process takes `StoreConformance`. The checks know the contract and no store.
"""

from perdure.testing.conformance.conditions import ConditionChecks
from perdure.testing.conformance.durability import DurabilityChecks
from perdure.testing.conformance.envelopes import EnvelopeChecks
from perdure.testing.conformance.forks import ForkChecks
from perdure.testing.conformance.inbox import InboxChecks
from perdure.testing.conformance.incarnations import IncarnationChecks
from perdure.testing.conformance.keeping import KeepingChecks
from perdure.testing.conformance.openings import OpeningChecks
from perdure.testing.conformance.records import RecordChecks
from perdure.testing.conformance.sessions import SessionChecks
from perdure.testing.conformance.threads import ThreadChecks
from perdure.testing.conformance.together import TogetherChecks
from perdure.testing.conformance.waiting import WaitChecks

__all__ = ["DurableStoreConformance", "StoreConformance"]


class StoreConformance(
    SessionChecks,
    RecordChecks,
    ConditionChecks,
    OpeningChecks,
    ForkChecks,
    InboxChecks,
    KeepingChecks,
    EnvelopeChecks,
    IncarnationChecks,
    ThreadChecks,
    TogetherChecks,
    WaitChecks,
):
    """The checks that hold for any store."""


class DurableStoreConformance(StoreConformance, DurabilityChecks):
    """And those for one that outlives its process."""
