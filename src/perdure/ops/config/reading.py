"""A YAML document as a tree of texts with their places: nothing is guessed from how a text looks.

What a text means (a number, yes or no, nothing) is decided by the key that it is of, elsewhere. So `no` can be a name,
and `010` is never 8. Aliases, anchors, tags, merge keys, a key said twice and a second document are problems.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from perdure import limits
from perdure.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, with which key (dotted, "" for none), and where: a file with the line, a variable, an option."""

    where: str
    key: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.key, self.what) if part)


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar as it is written. `plain`: without quotation marks, so that it may be a number."""

    text: str
    where: str
    plain: bool = True


@dataclass(frozen=True, slots=True)
class Branch:
    """A mapping: its keys, each with its place, and what they lead to."""

    items: dict[str, Node]
    places: dict[str, str]
    where: str


@dataclass(frozen=True, slots=True)
class Items:
    """A sequence."""

    items: tuple[Node, ...]
    where: str


Node: TypeAlias = Text | Branch | Items

EMPTY: Final = Branch({}, {}, "")


def read_file(path: Path) -> str:
    """The text of a configuration. Raises `ConfigError` for one that is no file, too long, or not UTF-8."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError([Problem(f"{path}", "", "is not a file")])
            data = file.read(limits.CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError([Problem(f"{path}", "", f"cannot be read: {error.strerror}")]) from error
    if len(data) > limits.CONFIG_BYTES_MAX:
        raise ConfigError([Problem(f"{path}", "", f"is longer than {limits.CONFIG_BYTES_MAX:,} bytes")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError([Problem(f"{path}:{line}", "", "is not UTF-8")]) from error


def read(text: str, name: str) -> tuple[Node, list[Problem]]:
    """The tree of a document that is called `name` in places, and what is wrong with it as YAML."""
    reader = _Reader(name)
    try:
        node = reader.document(yaml.parse(text, Loader=yaml.BaseLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(filter(None, (error.context, error.problem)))
        if "\\t" in what:
            what += "; indent with spaces"
        return EMPTY, [*reader.problems, Problem(reader.place(mark), "", f"is no YAML: {what}")]
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        return EMPTY, [Problem(f"{name}:{line}", "", f"a character that YAML does not allow: U+{error.character:04X}")]
    return node, reader.problems


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[Problem] = []

    def place(self, mark: Any) -> str:
        return self.name if mark is None else f"{self.name}:{mark.line + 1}"

    def problem(self, event: Any, what: str, key: str = "") -> None:
        self.problems.append(Problem(self.place(event.start_mark), key, what))

    def document(self, events: Iterator[Any]) -> Node:
        node: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if node is not None:
                    self.problem(event, "a second document begins here: one file is one configuration")
                    break
            elif not isinstance(event, yaml.StreamStartEvent | yaml.StreamEndEvent | yaml.DocumentEndEvent):
                node = self.node(event, events, "", depth=0)
        return node if node is not None else Branch({}, {}, self.name)

    def node(self, event: Any, events: Iterator[Any], key: str, *, depth: int) -> Node:
        where = self.place(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            self.problem(event, f"*{event.anchor}: aliases are not read here; write the value out", key)
            return Text(f"*{event.anchor}", where)
        if event.anchor is not None:
            self.problem(event, f"&{event.anchor}: anchors are not read here", key)
        if event.tag not in (None, "!"):
            self.problem(event, f"{event.tag}: tags are not read here", key)
        if isinstance(event, yaml.ScalarEvent):
            return Text(event.value, where, plain=event.style is None)
        if depth == limits.CONFIG_DEPTH_MAX:
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=event.start_mark)
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(events, key, where, depth=depth + 1)
        return self.mapping(events, key, where, depth=depth + 1)

    def sequence(self, events: Iterator[Any], key: str, where: str, *, depth: int) -> Items:
        found: list[Node] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            found.append(self.node(event, events, f"{key}[{len(found)}]", depth=depth))
        return Items(tuple(found), where)

    def mapping(self, events: Iterator[Any], key: str, where: str, *, depth: int) -> Branch:
        found = Branch({}, {}, where)
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            said = self.node(event, events, key, depth=depth)
            name = said.text if isinstance(said, Text) else ""
            here = f"{key}.{name}".lstrip(".")
            value = self.node(next(events), events, here, depth=depth)
            if not isinstance(said, Text):
                self.problem(event, "a key is a name", key)
            elif name == "<<":
                self.problem(event, "<<: merge keys are not read here; write the keys out", key)
            elif name in found.items:
                self.problem(event, f"is said twice, first at {found.places[name]}", here)
            else:
                found.items[name], found.places[name] = value, said.where
        return found
