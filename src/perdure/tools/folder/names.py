"""How names of files are written where a model reads them: as they are, or quoted where they could be misread.

A file's name is bytes. One with control characters, quotes or bytes that are no UTF-8 stands in double quotes, with
backslashes; a path in double quotes is read back the same way, so each file can be named.
"""

from __future__ import annotations

import os
import re
from typing import Final

_ESCAPES: Final = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}

_LETTERS: Final = {chr(code): f"\\{letter}" for letter, code in _ESCAPES.items()}

_QUOTED: Final = re.compile(r'\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([abtnvfr"\\]))|([^\\])', re.DOTALL)


def shown(name: bytes) -> str:
    """A name, or a path, for people and models."""
    text = os.fsdecode(name)
    if text.isprintable() and text and text[0] not in "\" '" and text[-1] != " ":
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in _LETTERS:
        return _LETTERS[char]
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def read(path: str) -> bytes:
    """The bytes of a path as a model wrote it. Raises `ValueError` for one that no file can have."""
    if len(path) > 1 and path[0] == path[-1] == '"':
        name = _unquoted(path[1:-1], path)
    else:
        name = path.encode("utf-8", "surrogateescape")
    if b"\0" in name:
        raise ValueError(f"{path!r}: no name has a NUL in it")
    return name


def _unquoted(text: str, path: str) -> bytes:
    made, at = bytearray(), 0
    while at < len(text):
        found = _QUOTED.match(text, at)
        if found is None:
            raise ValueError(f'{path}: in double quotes, a backslash stands before one of abtnvfr"\\ or xHH')
        byte, char, letter, other = found.groups()
        if byte is not None:
            made.append(int(byte, 16))
        elif letter is not None:
            made.append(_ESCAPES[letter])
        else:
            made += (chr(int(char, 16)) if char is not None else other).encode("utf-8", "surrogateescape")
        at = found.end()
    return bytes(made)
