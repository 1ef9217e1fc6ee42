"""How a store in front of another behaves: what may be said in its URL, or given by name. It opens nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from perdure.errors import StoreUrlError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.stores.address import Address

MODES: Final = ("through", "behind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`mode` "through": an append is acknowledged when cold has it; "behind": when hot has it.

    Behind, no append is acknowledged by hot alone while one of its session waits for cold longer than `behind_s`
    seconds, or more than `behind_bytes` of this process do; `copy_s` is how long writes are gathered before they are
    copied. Copies that were not used for `hot_age_s` seconds leave hot, and the oldest when all of them take more than
    `hot_bytes`; None: they stay.
    """

    mode: str = "through"
    behind_s: float = 5.0
    behind_bytes: int = 16 << 20
    copy_s: float = 0.05
    hot_bytes: int | None = None
    hot_age_s: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise StoreUrlError(f"tiered: mode={self.mode} is none; there are: {', '.join(MODES)}")
        for name, value in asdict(self).items():
            if not isinstance(value, str) and value is not None and value < 0:
                raise StoreUrlError(f"tiered: {name}={value} is below 0")

    @property
    def is_behind(self) -> bool:
        """Whether hot acknowledges."""
        return self.mode == "behind"

    def in_url(self) -> str:
        """What differs from how it is by itself, as options of a URL."""
        chosen = [(field.name, getattr(self, field.name)) for field in fields(self)]
        said = [(name, value) for name, value in chosen if value != getattr(BY_ITSELF, name)]
        return "".join(f"&{name}={quote(str(value))}" for name, value in said)

    @classmethod
    def of(cls, address: Address, **given: Any) -> Settings:
        """Those of a URL, and those given by name. Raises `StoreUrlError`."""
        written = {name: address.option(name, kind=kind, default=None) for name, kind in _KINDS.items()}
        return cls(**{name: value for name, value in written.items() if value is not None} | given)


_KINDS: Final[dict[str, Callable[[str], Any]]] = {
    "mode": str,
    "behind_s": float,
    "behind_bytes": int,
    "copy_s": float,
    "hot_bytes": int,
    "hot_age_s": float,
}
BY_ITSELF: Final = Settings()
NAMES: Final = tuple(_KINDS)
