"""What looks like a secret: the shapes of well-known tokens, the names of fields that hold secrets, revealed values.

Only shapes that hardly anything else has, so that ordinary text is left alone; `docs/secrets.md` lists them. It knows
no encoding: it judges texts.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote

MASK: Final = "[secret]"
"""Stands where a secret was."""

KNOWN_CHARS_MIN: Final = 16
"""A shorter value is looked for only if it has 8 characters, digits and letters: else words would be found that have
nothing to do with it."""

KNOWN_COUNT_MAX: Final = 64
"""So many revealed values are remembered, the newest."""

_known: dict[str, None] = {}


def known() -> tuple[str, ...]:
    """What was revealed in this process, or given to it as the value of a Secret."""
    return tuple(_known)


def remember(value: str) -> None:
    """From now on this value is recognised wherever it turns up."""
    if value in _known or not _is_rare(value):
        return
    _known[value] = None
    for old in tuple(_known)[:-KNOWN_COUNT_MAX]:
        _known.pop(old, None)


def _is_rare(value: str) -> bool:
    return len(value) >= (KNOWN_CHARS_MIN // 2 if _is_drawn(value) else KNOWN_CHARS_MIN)


TOKENS: Final[dict[str, str]] = {
    "a header": r"(?<=earer )[\w.~+/-]{20,}|(?<=asic )[A-Za-z0-9+/]{20,}",
    "age": r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    "anthropic, openai": r"sk-(?:[A-Za-z0-9]{20,}|(?:ant|proj|svcacct|admin|or|lf)-[\w-]{20,})",
    "aws": r"A(?:KIA|SIA)[A-Z0-9]{16}",
    "databricks": r"dapi[0-9a-f]{32}",
    "digitalocean": r"do[opr]_v1_[0-9a-f]{64}",
    "docker": r"dckr_pat_[\w-]{20,}",
    "github": r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}",
    "gitlab": r"glpat-[\w-]{20,}",
    "google": r"AIza[\w-]{35}|GOCSPX-[\w-]{20,}",
    "groq": r"gsk_[A-Za-z0-9]{40,}",
    "huggingface": r"hf_[A-Za-z0-9]{30,}",
    "json web token": r"eyJ[\w-]{17,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
    "linear": r"lin_api_[A-Za-z0-9]{30,}",
    "notion": r"ntn_[A-Za-z0-9]{40,}",
    "npm": r"npm_[A-Za-z0-9]{36}",
    "perplexity": r"pplx-[A-Za-z0-9]{40,}",
    "pypi": r"pypi-AgE[\w-]{50,}",
    "replicate": r"r8_[A-Za-z0-9]{37}",
    "sendgrid": r"(?<=SG\.)[\w-]{20,}\.[\w-]{40,}",
    "shopify": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "slack": r"xox[abeoprs]-[A-Za-z0-9-]{15,}|xapp-\d-[A-Za-z0-9-]{15,}",
    "stripe": r"[srp]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "supabase": r"sbp_[0-9a-f]{40}",
    "telegram": r"(?<=\d:)AA[\w-]{33}",
    "vault": r"(?<=hv[sb]\.)[\w-]{24,}",
    "xai": r"xai-[A-Za-z0-9]{60,}",
}
"""Whose tokens look how. Each is in a *run*, 20 or more letters, digits, `_` and `-`: at its beginning, or behind one
of the two last."""

_SHAPES: Final = "|".join(TOKENS.values())
_AROUND: Final = {
    ("@", "://"): r"(?<=://)[^\s:/@'\"<>{}$]{1,64}:[^\s/@'\"<>{}$]{3,128}(?=@[\w.-])",
    ("PRIVATE KEY",): r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----|\Z)",
}
"""A password in a URL, and a private key, by what must be there for one: first what is found, or not, the soonest."""

_TOKEN: Final = re.compile(_SHAPES, re.ASCII)
_TOKEN_IN_BYTES: Final = re.compile(_SHAPES.encode())
_AROUND_TEXT: Final = {signs: re.compile(shape, re.DOTALL | re.ASCII) for signs, shape in _AROUND.items()}
_AROUND_BYTES: Final = [
    (signs[0].encode(), signs[-1].encode(), re.compile(shape.encode(), re.DOTALL)) for signs, shape in _AROUND.items()
]

_RUN_BYTES: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_RUNS: Final = bytes(ord("a" if code in _RUN_BYTES else " ") for code in range(256))
_RUN: Final = b"a" * 20
_JOIN: Final = re.compile("(?<=[A-Za-z0-9])[_-](?=[A-Za-z])")
_JOIN_IN_BYTES: Final = re.compile(_JOIN.pattern.encode())
_LENGTH_BYTES: Final = 5
_BEFORE: Final = b"\\\xc4\xc5\xc6\xd9\xda\xdb"
_LATER: Final = range(1, _LENGTH_BYTES)
"""What says the length of a text or of bytes stands before it, and may look like the beginning of the run, as does
what follows a backslash."""

_DIGITS: Final = b"0123456789abcdef-"
_HEADS: Final = (b"r ", b"c ", b".")
"""A run of such digits alone is an id or a digest, and no token, unless it stands behind one of these: `Bearer `,
`Basic `, `SG.`, `hvs.`; what else a token begins with has other letters."""

NAMES: Final = (
    *("api_key", "access_key", "secret_key", "private_key", "signing_key", "encryption_key", "account_key"),
    *("password", "passwd", "passphrase", "authorization", "connection_string"),
    *("auth_token", "access_token", "refresh_token", "bearer_token", "session_token", "id_token", "client_secret"),
)
"""Fields of these names, also behind a prefix (`openai_api_key`) and however written (`X-API-Key`), hold secrets."""

VAGUE: Final = ("token", "secret", "credential", "credentials", "cookie")
"""Fields of these names hold one if it looks as if somebody had drawn it: `VAGUE_CHARS_MIN` with letters and digits."""

VAGUE_CHARS_MIN: Final = 16
NAMED_CHARS_MIN: Final = 6

_NOT: Final = ("page_token", "next_token", "sync_token", "continuation_token", "cancellation_token", "change_token")
"""Fields that are called so and hold none."""

_PLAIN: Final = str.maketrans("", "", "_-. ")


def _plain(name: str) -> str:
    return name.translate(_PLAIN).lower()


_STRONG_ENDS: Final = tuple(map(_plain, NAMES))
_VAGUE_ENDS: Final = tuple(map(_plain, VAGUE))
_NOT_ENDS: Final = tuple(map(_plain, _NOT))
ENDS: Final = tuple(end.encode() for end in (*_STRONG_ENDS, *_VAGUE_ENDS))
"""How the names of such fields end, in small letters and without what joins words."""

_PLACEHOLDER: Final = re.compile(
    r"[$<{\[%*].*|(?:secret|env|vault|sm|op|arn|file|os|process)[:.].*|(?:your|my|the|insert|enter|replace)[-_ ].*"
    r"|(.)\1*|.*(?:example|placeholder|redacted|masked|xxxx|\*\*\*|\.\.\.).*"
    r"|string|str|text|bytes|object|boolean|number|integer|none|null|true|false|undefined|unset|required|optional|hidden"
    r"|password|passwd|secret|token|api[-_]?key|changeme|default|missing|invalid|unknown|unauthorized|disabled|enabled",
    re.IGNORECASE | re.DOTALL,
)
"""What people write where a secret would be."""

_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token|ApiKey|Digest)\s+", re.IGNORECASE)


def names_secret(name: str, value: str) -> bool:
    """Whether a field of this name with this value holds a secret."""
    short = _plain(name)
    if not short.endswith((*_STRONG_ENDS, *_VAGUE_ENDS)) or short.endswith(_NOT_ENDS):
        return False
    value = _SCHEME.sub("", value.strip(), count=1)
    if len(value) < NAMED_CHARS_MIN or any(map(str.isspace, value)) or _PLACEHOLDER.fullmatch(value):
        return False
    return short.endswith(_STRONG_ENDS) or (len(value) >= VAGUE_CHARS_MIN and _is_drawn(value))


def _is_drawn(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_token(text: str) -> bool:
    """Whether what has the shape of a token is one, and not the example of a manual."""
    return (_is_drawn(text) or "PRIVATE KEY" in text or ":" in text) and not _PLACEHOLDER.fullmatch(text)


def _starts(text: str) -> Iterator[int]:
    """Where a token may begin: where a run does, behind what a backslash stands for, and behind what joins words."""
    marked = text.encode("ascii", "replace").translate(_RUNS)
    at = marked.find(_RUN)
    while at >= 0:
        yield at
        if text[at - 1 : at] == "\\":
            yield at + 1
        end = marked.find(b" ", at)
        yield from (join.end() for join in _JOIN.finditer(text, at, end if end >= 0 else len(text)))
        at = marked.find(_RUN, end) if end >= 0 else -1


def may_have_token(data: bytes) -> bool:
    """Whether a token may be in a text somewhere in these bytes, behind whatever says its length.

    Never False if there is one in UTF-8. Takes about 3 ns for a byte.
    """
    marked = data.translate(_RUNS)
    at = marked.find(_RUN)
    while at >= 0:
        end = marked.find(b" ", at)
        end = end if end >= 0 else len(data)
        if not _is_number(data, at, end) and _may_be_token(data, at, end):
            return True
        at = marked.find(_RUN, end)
    for one, other, shape in _AROUND_BYTES:
        if one in data and other in data and shape.search(data):
            return True
    return bool(_known) and any(form in data for value in known() for form in _forms_in_bytes(value))


def _is_number(data: bytes, at: int, end: int) -> bool:
    """Whether a run is a number in hexadecimal digits, as ids are, behind nothing that makes a token of any run."""
    return not data[at:end].translate(None, _DIGITS) and not data[max(0, at - 2) : at].endswith(_HEADS)


def _may_be_token(data: bytes, at: int, end: int) -> bool:
    """Whether a run begins as a token does, there or behind what says its length, or has one in it."""
    match = _TOKEN_IN_BYTES.match
    if match(data, at):
        return True
    near = data[max(0, at - _LENGTH_BYTES) : at]
    if len(near.translate(None, _BEFORE)) < len(near) and any(match(data, at + more) for more in _LATER):
        return True
    return any(match(data, join.end()) for join in _JOIN_IN_BYTES.finditer(data, at, end))


def places(text: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each secret in the text, in any order."""
    for begin in _starts(text):
        found = _TOKEN.match(text, begin)
        if found and _is_token(found[0]):
            yield found.span()
    for signs, shape in _AROUND_TEXT.items():
        if all(sign in text for sign in signs):
            yield from (found.span() for found in shape.finditer(text) if _is_token(found[0]))
    for value in known():
        for form in forms(value):
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form)
                at = text.find(form, at + len(form))


@lru_cache(maxsize=1024)
def _forms_in_bytes(value: str) -> tuple[bytes, ...]:
    return tuple(form.encode("utf-8", "surrogatepass") for form in forms(value))


@lru_cache(maxsize=1024)
def forms(value: str) -> tuple[str, ...]:
    """How a revealed value may be written: as it is, in a URL, in base64 at each of its three places."""
    data = value.encode("utf-8", "surrogatepass")
    coded = (b64encode(bytes(lead) + data).decode() for lead in range(3))
    inner = (text[-(-8 * lead // 6) : (lead + len(data)) // 3 * 4] for lead, text in enumerate(coded))
    return tuple({value: None, quote(value, safe=""): None, **dict.fromkeys(inner)})


def masked(text: str, *, mask: str = MASK) -> str:
    """The text with each secret in it replaced; the very same where there is none."""
    found = sorted(places(text))
    if not found:
        return text
    parts: list[str] = []
    at = 0
    for begin, end in found:
        if begin >= at:
            parts += (text[at:begin], mask)
        at = max(at, end)
    return "".join((*parts, text[at:]))


def masked_field(name: str, text: str, *, mask: str = MASK) -> str:
    """The text of a field of this name: as a whole, if the name says so."""
    return mask if names_secret(name, text) else masked(text, mask=mask)
