"""One store in front of another: what is used now is near, what was used once is where it costs less.

The one behind, `cold`, is the authority: who holds a session is decided there and nowhere else. The one in front,
`hot`, keeps copies, and between them it may acknowledge (`mode=behind`). `docs/stores.md`, Tiers, says what that means.
"""

from perdure.stores.tiered.settings import Settings
from perdure.stores.tiered.store import TieredStore, open_url

__all__ = ["Settings", "TieredStore", "open_url"]
