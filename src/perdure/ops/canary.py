"""A text that is to be found nowhere any more, and what stands in its place: in values, in bodies, in texts.

It knows the forms in which it may have been written, and no store.
"""

from __future__ import annotations

from typing import Any

from perdure import limits
from perdure.errors import DamageError, RefusedError
from perdure.values import tokens
from perdure.values.texts import Texts
from perdure.values.wire import pack_tree, unpack_tree


class Canary:
    """`text` as it is, in a URL, in base64; `mask` takes its place.

    Raises `RefusedError` for a text that is too short, or that is in its mask.
    """

    def __init__(self, text: str, *, mask: str) -> None:
        if len(text) < limits.SCRUB_CHARS_MIN:
            raise RefusedError(
                f"a text of {len(text)} characters is found in words that have nothing to do with it: at least "
                f"{limits.SCRUB_CHARS_MIN} are scrubbed"
            )
        self.mask = mask
        self._forms = sorted(tokens.forms(text), key=len, reverse=True)
        self._data = [form.encode("utf-8", "surrogatepass") for form in self._forms]
        if self.is_in(mask.encode("utf-8", "surrogatepass")):
            raise RefusedError("the mask has in it what it shall stand for: take another")

    def is_in(self, data: bytes) -> bool:
        """Whether a form of it is in these bytes."""
        return any(form in data for form in self._data)

    def text(self, text: str, name: str = "") -> str:
        """The text without it."""
        del name
        for form in self._forms:
            text = text.replace(form, self.mask)
        return text

    def value(self, data: bytes) -> bytes:
        """An encoded value without it: the same bytes if it is not in there. Raises `DamageError`."""
        if not self.is_in(data):
            return data
        walk = Texts(self.text, mask=self.mask)
        tree = walk.node(unpack_tree(data), "$")
        return pack_tree(tree) if walk.paths else data

    def body(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body of a record without it: the very same if it is not in there. Fields keep their names."""
        made = {name: self._field(field) for name, field in body.items()}
        return body if all(made[name] is body[name] for name in made) else made

    def _field(self, field: Any) -> Any:
        if type(field) is str:
            made = self.text(field)
            return field if made == field else made
        if type(field) is bytes:
            return self._bytes(field)
        if type(field) is dict:
            named = {self.text(name): self._field(item) for name, item in field.items()}
            return field if all(a is b for a, b in zip(named.values(), field.values(), strict=True)) else named
        if type(field) is list:
            items = [self._field(item) for item in field]
            return field if all(a is b for a, b in zip(items, field, strict=True)) else items
        return field

    def _bytes(self, field: bytes) -> bytes:
        """An encoded value, or bytes that are none."""
        if not self.is_in(field):
            return field
        try:
            return self.value(field)
        except DamageError:
            return self.text(field.decode("latin-1")).encode("latin-1", "replace")
