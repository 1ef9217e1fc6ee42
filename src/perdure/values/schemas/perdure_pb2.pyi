from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Value(_message.Message):
    __slots__ = ("none", "flag", "int", "uint", "float", "text", "data", "list", "dict", "tagged", "instance", "encoded", "deep", "floats")
    NONE_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    INT_FIELD_NUMBER: _ClassVar[int]
    UINT_FIELD_NUMBER: _ClassVar[int]
    FLOAT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    DICT_FIELD_NUMBER: _ClassVar[int]
    TAGGED_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENCODED_FIELD_NUMBER: _ClassVar[int]
    DEEP_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    none: bool
    flag: bool
    int: int
    uint: int
    float: float
    text: str
    data: bytes
    list: List
    dict: Dict
    tagged: Tagged
    instance: Instance
    encoded: Value
    deep: bytes
    floats: Floats
    def __init__(self, none: _Optional[bool] = ..., flag: _Optional[bool] = ..., int: _Optional[int] = ..., uint: _Optional[int] = ..., float: _Optional[float] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., list: _Optional[_Union[List, _Mapping]] = ..., dict: _Optional[_Union[Dict, _Mapping]] = ..., tagged: _Optional[_Union[Tagged, _Mapping]] = ..., instance: _Optional[_Union[Instance, _Mapping]] = ..., encoded: _Optional[_Union[Value, _Mapping]] = ..., deep: _Optional[bytes] = ..., floats: _Optional[_Union[Floats, _Mapping]] = ...) -> None: ...

class List(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, items: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Floats(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, items: _Optional[_Iterable[float]] = ...) -> None: ...

class Dict(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    def __init__(self, entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: Value
    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Tagged(_message.Message):
    __slots__ = ("kind", "tree")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    kind: int
    tree: Value
    def __init__(self, kind: _Optional[int] = ..., tree: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Instance(_message.Message):
    __slots__ = ("tag", "version", "body")
    TAG_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    tag: str
    version: int
    body: Value
    def __init__(self, tag: _Optional[str] = ..., version: _Optional[int] = ..., body: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("session", "seq", "epoch", "kind", "time_us", "chain", "body")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    session: str
    seq: int
    epoch: int
    kind: str
    time_us: int
    chain: bytes
    body: Value
    def __init__(self, session: _Optional[str] = ..., seq: _Optional[int] = ..., epoch: _Optional[int] = ..., kind: _Optional[str] = ..., time_us: _Optional[int] = ..., chain: _Optional[bytes] = ..., body: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Log(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: Value
    def __init__(self, value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
