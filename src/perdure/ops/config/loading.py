"""From a file, the environment and a command line to settings: the stronger of them wins for each key.

Everything that is wrong is told at once, each with its place and key. Nothing that a configuration names is imported,
run or opened here.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator, create_model
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from perdure.errors import ConfigError, RefusedError
from perdure.ops.config.keys import keys_of
from perdure.ops.config.paths import beside
from perdure.ops.config.reading import EMPTY, Branch, Node, Problem, Text, read, read_file
from perdure.ops.config.scalars import WrongError, is_nothing, value_of
from perdure.ops.config.sections import SECTIONS
from perdure.ops.config.settings import Settings

PREFIX: Final = "PERDURE_"

SHORT: Final = {
    "PERDURE_STORE": ("storage", "url"),
    "PERDURE_PASSWORD": ("storage", "password"),
    "PERDURE_WITNESS": ("storage", "witness"),
    "PERDURE_PROTOCOL": ("serialization", "protocol"),
    "PERDURE_KEY": ("security", "keys"),
    "PERDURE_SECRETS": ("security", "secrets"),
}
"""Variables with a short name, and the keys that they say."""

OF_URL: Final = (
    ("storage", "hot"),
    ("storage", "cold"),
    ("storage", "password"),
    ("storage", "witness"),
    ("storage", "busy_s"),
    ("security", "keys"),
)
"""Keys that belong to a store: where a stronger place says another `url`, those of the weaker ones do not count."""


@dataclass(slots=True)
class Layer:
    """What one place says: its values by section and key, and where each is said."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[tuple[str, ...], str] = field(default_factory=dict)

    def forget(self, section: str, key: str) -> None:
        """Takes one key out."""
        self.values.get(section, {}).pop(key, None)
        self.places.pop((section, key), None)


def load(
    file: Path | None,
    *,
    environment: Mapping[str, str] | None = None,
    options: Mapping[tuple[str, str], tuple[str, str]] | None = None,
) -> Settings:
    """The settings of a file (None: of none), under those of the environment, under `options` of a command line.

    `options` has for a section and a key the text and the name of the option. Raises `ConfigError` with all problems.
    """
    problems: list[Problem] = []
    trees = (
        _of_options(options or {}),
        _of_environment(os.environ if environment is None else environment, problems),
        _of_file(file, problems),
    )
    layers = [_layer(tree, problems) for tree in trees]
    if file is not None:
        beside(layers[2].values, file.parent)
    _keep_with_url(layers)
    places = {path: where for layer in reversed(layers) for path, where in layer.places.items()}
    found = _merged(layers, places, problems)
    if problems:
        raise ConfigError(problems)
    return Settings(**found, places=places, file=file)


def _of_file(file: Path | None, problems: list[Problem]) -> Node:
    if file is None:
        return EMPTY
    node, wrong = read(read_file(file), str(file))
    problems += wrong
    return node


def _of_options(options: Mapping[tuple[str, str], tuple[str, str]]) -> Node:
    root = Branch({}, {}, "")
    for path, (text, where) in options.items():
        _put(root, path, Text(text, where), where)
    return root


def _of_environment(environment: Mapping[str, str], problems: list[Problem]) -> Node:
    root = Branch({}, {}, "")
    for name, text in sorted(environment.items()):
        path = SHORT.get(name) or (tuple(name.removeprefix(PREFIX).lower().split("__")) if _is_ours(name) else None)
        if path is None or not text:
            continue
        node, wrong = read(text, name) if text[0] in "[{" else (Text(text, name), [])
        problems += wrong
        if (said := _put(root, path, node, name)) is not None:
            problems.append(Problem(name, ".".join(path), f"is said by {said}, too: set one of them"))
    return root


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX) and "__" in name


def _put(root: Branch, path: tuple[str, ...], node: Node, where: str) -> str | None:
    """Puts it into the tree. Where it is said already, if so."""
    for name in path[:-1]:
        below = root.items.setdefault(name, Branch({}, {}, where))
        root.places.setdefault(name, where)
        if not isinstance(below, Branch):
            return root.places[name]
        root = below
    if path[-1] in root.items:
        return root.places[path[-1]]
    root.items[path[-1]], root.places[path[-1]] = node, where
    return None


def _layer(tree: Node, problems: list[Problem]) -> Layer:
    found = Layer()
    if not isinstance(tree, Branch):
        if not is_nothing(tree):
            problems.append(Problem(tree.where, "", f"is no mapping of sections: {', '.join(SECTIONS)}"))
        return found
    for name, node in tree.items.items():
        if name not in SECTIONS:
            problems.append(Problem(tree.places[name], name, f"is no section{_meant(name, SECTIONS)}"))
        elif isinstance(node, Branch):
            found.places[name,] = tree.places[name]
            found.values[name] = {}
            _read_section(name, node, found, problems)
        elif not is_nothing(node):
            problems.append(Problem(node.where, name, f"is a section, with keys: {', '.join(keys_of(name))}"))
    return found


def _read_section(section: str, node: Branch, into: Layer, problems: list[Problem]) -> None:
    keys = keys_of(section)
    for name, said in node.items.items():
        where, dotted = node.places[name], f"{section}.{name}"
        if name not in keys:
            problems.append(Problem(where, dotted, f"is no key of this section{_meant(name, keys)}"))
            continue
        try:
            into.values[section][name] = value_of(said, keys[name].hint, name)
        except (WrongError, ValueError) as error:
            problems.append(Problem(getattr(error, "where", "") or where, dotted, str(error)))
        else:
            into.places[section, name] = where


def _meant(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"


def _keep_with_url(layers: list[Layer]) -> None:
    """What belongs to the store of a weaker place does not go with the URL of a stronger one."""
    first = next((n for n, layer in enumerate(layers) if "url" in layer.values.get("storage", {})), len(layers))
    for layer in layers[first + 1 :]:
        if layer.values.get("storage", {}).get("url"):
            for section, key in OF_URL:
                layer.forget(section, key)


def _merged(layers: list[Layer], places: dict[tuple[str, ...], str], problems: list[Problem]) -> dict[str, Any]:
    """The policies that the layers come to, each checked by its own class."""

    class Layered(BaseSettings):
        model_config = SettingsConfigDict(extra="forbid", arbitrary_types_allowed=True)

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            *_: PydanticBaseSettingsSource,
            **__: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(InitSettingsSource(settings_cls, init_kwargs=layer.values) for layer in layers)

    fields: Any = {
        name: (Annotated[section.type, WrapValidator(_refused)] | None, None) for name, section in SECTIONS.items()
    }
    try:
        model = create_model("Configuration", __base__=Layered, **fields)()
    except ValidationError as error:
        told = {problem.key for problem in problems}
        problems += [found for found in (_problem(one, places) for one in error.errors()) if found.key not in told]
        return {}
    return {name: getattr(model, name) for name in SECTIONS}


def _refused(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    try:
        return handler(value)
    except RefusedError as error:
        raise ValueError(str(error)) from error


def _problem(error: Any, places: Mapping[tuple[str, ...], str]) -> Problem:
    """What pydantic or a policy found, at the key that it is about."""
    section, *rest = map(str, error["loc"])
    what = str(error["msg"]).removeprefix("Value error, ")
    what = "must be said in this section" if error["type"] == "missing" else what
    key = rest[0] if rest else next((name for name in _named(section, what) if (section, name) in places), None)
    where = places.get((section, key or ""), places.get((section,), ""))
    return Problem(where, f"{section}.{key}" if key else section, what)


def _named(section: str, what: str) -> list[str]:
    """The keys that a message names, in the order in which it does."""
    words = what.replace("=", " ").replace(",", " ").split()
    return [word for word in words if word in keys_of(section)]
