"""Every kind of value beyond the plain ones: its number in the format, its type, how it is taken apart and rebuilt.

A kind is one line of `KINDS`. Its `dump` makes a list or leaf whose items may again be any storable values; its `load`
gets the same back and makes an equal value or raises. Numbers and names are part of the format and never used twice.
Nothing here knows of codecs or of registered classes.
"""

from __future__ import annotations

import array
import datetime as dt
import ipaddress
import pathlib
import re
import sys
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from perdure.errors import DamageError, FormatNewerError, PerdureError, TagError
from perdure.values import secret
from perdure.values.path import Refusal, key_step

Step = Callable[[Any, int], str]


def _no_step(_value: Any, _index: int) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value; `dump` makes a tree of the type `made_of`, `step(value, i)` leads to item `i` of it."""

    number: int
    name: str
    cls: type
    made_of: type
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]
    step: Step = _no_step


def load(number: int, tree: Any) -> Any:
    """The value of the kind `number` made of `tree`.

    Raises FormatNewerError for a kind that this version does not know, DamageError if `tree` does not make one.
    """
    kind = BY_NUMBER.get(number)
    if kind is None:
        raise FormatNewerError(f"values of kind {number} are not known to this version of perdure")
    if type(tree) is not kind.made_of:
        raise DamageError(f"a stored {kind.name} made of {type(tree).__name__}, not {kind.made_of.__name__}")
    try:
        return kind.load(tree)
    except PerdureError:
        raise
    except Exception as error:
        raise DamageError(f"a stored {kind.name} that cannot be rebuilt: {error}") from error


def of(cls: type) -> Kind | None:
    """The kind of the values whose exact type is `cls`, if there is one."""
    kind = BY_TYPE.get(cls)
    if kind is None and cls.__name__ == "TzInfo":
        core = sys.modules.get("pydantic_core")
        return PYDANTIC_ZONE if core and cls is core.TzInfo else None
    return kind


# Text and numbers


def _dump_text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _load_text(tree: bytes) -> str:
    return tree.decode("utf-8", "surrogatepass")


def _dump_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _load_int(tree: bytes) -> int:
    return int.from_bytes(tree, "big", signed=True)


def _dump_decimal(value: Decimal) -> list[Any]:
    sign, digits, exponent = value.as_tuple()
    return [sign, "".join(map(str, digits)), exponent]


def _load_decimal(tree: list[Any]) -> Decimal:
    sign, digits, exponent = tree
    return Decimal((sign, tuple(map(int, digits)), exponent))


def _load_fraction(tree: list[Any]) -> Fraction:
    numerator, denominator = tree
    if type(numerator) is not int or type(denominator) is not int:
        raise DamageError("a stored fraction of something else than integers")
    return Fraction(numerator, denominator)


# Collections


def _dump_map(value: dict[Any, Any]) -> list[Any]:
    return [item for pair in value.items() for item in pair]


def _dump_bare(value: Any) -> list[Any]:
    if vars(value):
        raise Refusal(f"this {type(value).__name__} has attributes, which cannot be stored")
    return _dump_map(value)


def _load_map(tree: list[Any]) -> dict[Any, Any]:
    result = dict(zip(tree[::2], tree[1::2], strict=True))
    if 2 * len(result) != len(tree):
        raise DamageError("a stored dict with a key twice")
    return result


def _map_step(value: dict[Any, Any], index: int) -> str:
    key = list(value)[index // 2]
    return key_step(key) if index % 2 else f"{{key {key_step(key)}}}"


def _load_set(tree: list[Any]) -> set[Any]:
    result = set(tree)
    if len(result) != len(tree):
        raise DamageError("a stored set with an element twice")
    return result


def _load_frozenset(tree: list[Any]) -> frozenset[Any]:
    return frozenset(_load_set(tree))


def list_step(_value: Any, index: int) -> str:
    """The step to an item of a list or tuple."""
    return f"[{index}]"


def _element_step(_value: Any, _index: int) -> str:
    return "{element}"


def _dump_deque(value: deque[Any]) -> list[Any]:
    return [value.maxlen, *value]


def _deque_step(_value: Any, index: int) -> str:
    return f"[{index - 1}]"


def _load_deque(tree: list[Any]) -> deque[Any]:
    result = deque(tree[1:], maxlen=tree[0])
    if len(result) != len(tree) - 1:
        raise DamageError("a stored deque longer than its bound")
    return result


FACTORIES: Final[dict[str, type | None]] = {
    "": None,
    **{cls.__name__: cls for cls in (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, set, str)},
    **{cls.__name__: cls for cls in (tuple, Counter, Decimal, Fraction, OrderedDict, defaultdict, deque)},
}
"""What a stored `defaultdict` may call, and under which name."""

_FACTORY_NAMES: Final = {factory: name for name, factory in FACTORIES.items()}


def _dump_defaultdict(value: defaultdict[Any, Any]) -> list[Any]:
    factory = value.default_factory
    if not (factory is None or isinstance(factory, type)) or factory not in _FACTORY_NAMES:
        raise Refusal("the factory of this defaultdict is not one of the builtin types that can be stored")
    return [_FACTORY_NAMES[factory], *_dump_map(value)]


def _load_defaultdict(tree: list[Any]) -> defaultdict[Any, Any]:
    return defaultdict(FACTORIES[tree[0]], _load_map(tree[1:]))


def _defaultdict_step(value: defaultdict[Any, Any], index: int) -> str:
    return _map_step(value, index - 1) if index else ".default_factory"


def _dump_array(value: array.array[Any]) -> list[Any]:
    little = value if sys.byteorder == "little" else array.array(value.typecode, value)
    if little is not value:
        little.byteswap()
    return [value.typecode, value.itemsize, little.tobytes()]


def _load_array(tree: list[Any]) -> array.array[Any]:
    typecode, itemsize, data = tree
    result = array.array(typecode, data)
    if result.itemsize != itemsize:
        raise TagError(f"a stored array of type {typecode!r} has items of {itemsize} bytes, not {result.itemsize}")
    if sys.byteorder != "little":
        result.byteswap()
    return result


def _dump_ellipsis(_value: Any) -> None:
    return None


def _load_ellipsis(_tree: None) -> Any:
    return Ellipsis


# Time


def _dump_datetime(value: dt.datetime) -> list[Any]:
    day = (value.year, value.month, value.day)
    return [*day, value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo]


def _load_datetime(tree: list[Any]) -> dt.datetime:
    year, month, day, hour, minute, second, microsecond, fold, zone = tree
    return dt.datetime(year, month, day, hour, minute, second, microsecond, zone, fold=fold)


def _dump_time(value: dt.time) -> list[Any]:
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo]


def _load_time(tree: list[Any]) -> dt.time:
    hour, minute, second, microsecond, fold, zone = tree
    return dt.time(hour, minute, second, microsecond, zone, fold=fold)


def _zone_step(_value: Any, _index: int) -> str:
    return ".tzinfo"


def _dump_date(value: dt.date) -> list[Any]:
    return [value.year, value.month, value.day]


def _dump_timedelta(value: dt.timedelta) -> list[Any]:
    return [value.days, value.seconds, value.microseconds]


def _dump_timezone(value: dt.timezone) -> list[Any]:
    return list(value.__getinitargs__())  # type: ignore[attr-defined]


_ZONE_KEY: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


def _dump_zoneinfo(value: zoneinfo.ZoneInfo) -> str:
    if not value.key or not _ZONE_KEY.fullmatch(value.key):
        raise Refusal("a ZoneInfo without the name of a time zone cannot be stored")
    return value.key


def _load_zoneinfo(tree: str) -> zoneinfo.ZoneInfo:
    if not _ZONE_KEY.fullmatch(tree):
        raise DamageError(f"not the name of a time zone: {tree[:60]!r}")
    try:
        return zoneinfo.ZoneInfo(tree)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise TagError(f"the time zone {tree[:60]!r} is not known here; install the package tzdata") from error


def _dump_offset(value: dt.tzinfo) -> int:
    offset = value.utcoffset(None)
    return 0 if offset is None else offset // dt.timedelta(seconds=1)


def _load_offset(tree: int) -> Any:
    from pydantic_core import TzInfo  # noqa: PLC0415  (takes a while to import, and few sessions need it)

    return TzInfo(tree)


# Names and addresses


def _dump_uuid(value: uuid.UUID) -> list[Any]:
    return [value.bytes, value.is_safe.value]


def _load_uuid(tree: list[Any]) -> uuid.UUID:
    return uuid.UUID(bytes=tree[0], is_safe=uuid.SafeUUID(tree[1]))


def _path_loader(cls: type[pathlib.PurePath]) -> Callable[[Any], pathlib.PurePath]:
    def load_path(tree: str) -> pathlib.PurePath:
        try:
            return cls(tree)
        except NotImplementedError as error:
            raise TagError(f"a stored {cls.__name__} cannot be rebuilt on this system") from error

    return load_path


def _dump_pattern(value: re.Pattern[Any]) -> list[Any]:
    if value.flags & re.DEBUG:
        raise Refusal("a pattern compiled with re.DEBUG cannot be stored")
    return [value.pattern, value.flags]


def _load_pattern(tree: list[Any]) -> re.Pattern[Any]:
    if tree[1] & re.DEBUG:
        raise DamageError("a stored pattern with re.DEBUG")
    return re.compile(*tree)


def _dump_range(value: range | slice) -> list[Any]:
    return [value.start, value.stop, value.step]


NOTHING: Final = type(None)


def _pair(cls: type) -> tuple[type, type, Callable[[Any], Any], Callable[[Any], Any]]:
    return cls, str, str, cls


def _path(cls: type[pathlib.PurePath]) -> tuple[type, type, Callable[[Any], Any], Callable[[Any], Any]]:
    return cls, str, str, _path_loader(cls)


KINDS: Final = (
    # Number 1 is a registered class, see `wire.CLASS`; number, name, type, what its tree is, dump, load, step.
    Kind(2, "text", str, bytes, _dump_text, _load_text),
    Kind(3, "int", int, bytes, _dump_int, _load_int),
    Kind(4, "map", dict, list, _dump_map, _load_map, _map_step),
    Kind(5, "tuple", tuple, list, list, tuple, list_step),
    Kind(6, "set", set, list, list, _load_set, _element_step),
    Kind(7, "frozenset", frozenset, list, list, _load_frozenset, _element_step),
    Kind(8, "bytearray", bytearray, bytes, bytes, bytearray),
    Kind(9, "complex", complex, list, lambda value: [value.real, value.imag], lambda tree: complex(*tree)),
    Kind(10, "decimal", Decimal, list, _dump_decimal, _load_decimal),
    Kind(11, "fraction", Fraction, list, lambda v: [v.numerator, v.denominator], _load_fraction),
    Kind(12, "datetime", dt.datetime, list, _dump_datetime, _load_datetime, _zone_step),
    Kind(13, "date", dt.date, list, _dump_date, lambda tree: dt.date(*tree)),
    Kind(14, "time", dt.time, list, _dump_time, _load_time, _zone_step),
    Kind(15, "timedelta", dt.timedelta, list, _dump_timedelta, lambda tree: dt.timedelta(*tree)),
    Kind(16, "timezone", dt.timezone, list, _dump_timezone, lambda tree: dt.timezone(*tree)),
    Kind(17, "zoneinfo", zoneinfo.ZoneInfo, str, _dump_zoneinfo, _load_zoneinfo),
    Kind(18, "uuid", uuid.UUID, list, _dump_uuid, _load_uuid),
    Kind(19, "posix_path", *_path(pathlib.PosixPath)),
    Kind(20, "windows_path", *_path(pathlib.WindowsPath)),
    Kind(21, "pure_posix_path", *_path(pathlib.PurePosixPath)),
    Kind(22, "pure_windows_path", *_path(pathlib.PureWindowsPath)),
    Kind(23, "range", range, list, _dump_range, lambda tree: range(*tree)),
    Kind(24, "slice", slice, list, _dump_range, lambda tree: slice(*tree)),
    Kind(25, "deque", deque, list, _dump_deque, _load_deque, _deque_step),
    Kind(26, "ordered_dict", OrderedDict, list, _dump_bare, lambda tree: OrderedDict(_load_map(tree)), _map_step),
    Kind(27, "defaultdict", defaultdict, list, _dump_defaultdict, _load_defaultdict, _defaultdict_step),
    Kind(28, "counter", Counter, list, _dump_bare, lambda tree: Counter(_load_map(tree)), _map_step),
    Kind(29, "ellipsis", type(Ellipsis), NOTHING, _dump_ellipsis, _load_ellipsis),
    Kind(30, "ipv4_address", *_pair(ipaddress.IPv4Address)),
    Kind(31, "ipv6_address", *_pair(ipaddress.IPv6Address)),
    Kind(32, "ipv4_network", *_pair(ipaddress.IPv4Network)),
    Kind(33, "ipv6_network", *_pair(ipaddress.IPv6Network)),
    Kind(34, "ipv4_interface", *_pair(ipaddress.IPv4Interface)),
    Kind(35, "ipv6_interface", *_pair(ipaddress.IPv6Interface)),
    Kind(36, "pattern", re.Pattern, list, _dump_pattern, _load_pattern),
    Kind(37, "array", array.array, list, _dump_array, _load_array),
    # 38 is below
    Kind(39, "secret", secret.Secret, str, secret.dump, secret.load),
)

PYDANTIC_ZONE: Final = Kind(38, "pydantic_zone", dt.tzinfo, int, _dump_offset, _load_offset)
"""The fixed offset that pydantic gives to the datetimes it parses; its own type is looked up once pydantic is there."""

BY_TYPE: Final = {kind.cls: kind for kind in KINDS}
BY_NUMBER: Final = {kind.number: kind for kind in (*KINDS, PYDANTIC_ZONE)}
BY_NAME: Final = {kind.name: kind for kind in (*KINDS, PYDANTIC_ZONE)}
