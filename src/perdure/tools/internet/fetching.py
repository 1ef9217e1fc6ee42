"""Getting a page: from allowed hosts alone, redirects too, within bounds of time and of size once it is unpacked."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import httpx

from perdure import limits
from perdure.session.timed import TimeOverError, within
from perdure.session.waiting import in_thread
from perdure.tools.internet.addresses import Allowed
from perdure.values import storable

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_AGENT: Final = "perdure (an agent's tool)"

_TEXTS: Final = ("json", "xml", "javascript", "yaml", "x-yaml", "toml", "csv", "x-ndjson", "xhtml+xml")

_ADDRESSES_COUNT: Final = 3
"""So many addresses of a host are tried."""


@storable("perdure.tools.Content")
@dataclass(frozen=True, slots=True)
class Content:
    """What a server answered. `url` is where it was in the end, `kind` its media type; `cut`: there was more of it."""

    url: str
    status: int
    kind: str
    charset: str
    body: bytes
    cut: bool
    length: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether the body is text, by its media type."""
        return is_text(self.kind)


def is_text(kind: str) -> bool:
    """Whether what is of this media type is text."""
    main, _, sub = kind.partition("/")
    return main == "text" or (main == "application" and (sub in _TEXTS or sub.endswith(("+json", "+xml"))))


def get(url: str, allowed: Allowed, *, bytes_max: int, seconds: float) -> Content:
    """What is at this address. The body of what is no text is not read.

    Raises `PermissionError` for what is not allowed, `ConnectionError`, `TimeoutError`; `ValueError` for no address.
    """

    async def work() -> Content:
        async with asyncio.timeout(seconds):
            return await _followed(_parsed(url), allowed, bytes_max)

    try:
        return within(lambda: asyncio.run(work()), timeout_s=seconds + 2)
    except (TimeoutError, TimeOverError, httpx.TimeoutException):
        raise TimeoutError(f"{url}: it took longer than {seconds:g} s") from None
    except httpx.HTTPError as error:
        raise ConnectionError(f"{url}: {str(error) or type(error).__name__}") from None


def _parsed(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise ValueError(f"{text[:200]!r} is no address: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{text[:200]!r}: an address begins with http:// or https:// and a host")
    if url.userinfo:
        raise PermissionError(f"{url.host}: an address with a name and password in it is not asked")
    return url.copy_with(fragment=None)


async def _followed(url: httpx.URL, allowed: Allowed, bytes_max: int) -> Content:
    for _ in range(limits.REDIRECTS_COUNT_MAX + 1):
        async with _answer(url, allowed) as response:
            target = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not target:
                return await _content(url, response, bytes_max)
        url = _parsed(str(url.join(target)))
    raise ConnectionError(f"{url}: more than {limits.REDIRECTS_COUNT_MAX} redirects")


@contextlib.asynccontextmanager
async def _answer(url: httpx.URL, allowed: Allowed) -> AsyncIterator[httpx.Response]:
    """The answer of a host at an address that was checked. No cookies, proxies or keys of the environment."""
    addresses = await in_thread(allowed.addresses, url.scheme, url.host, url.port)
    async with httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(None)) as client:
        response = await _sent(client, url, addresses[:_ADDRESSES_COUNT])
        try:
            yield response
        finally:
            await response.aclose()


async def _sent(client: httpx.AsyncClient, url: httpx.URL, addresses: list[str]) -> httpx.Response:
    headers = {"Host": url.netloc.decode("ascii"), "User-Agent": _AGENT, "Accept-Encoding": "gzip", "Accept": "*/*"}
    failed: httpx.ConnectError | None = None
    for address in addresses:
        request = client.build_request(
            "GET",
            url.copy_with(host=address),
            headers=headers,
            extensions={"sni_hostname": url.raw_host.decode("ascii")},
        )
        try:
            return await client.send(request, stream=True, follow_redirects=False)
        except httpx.ConnectError as error:
            failed = error
    assert failed is not None  # noqa: S101 - there was an address
    raise failed


async def _content(url: httpx.URL, response: httpx.Response, bytes_max: int) -> Content:
    header = response.headers.get("content-type", "")
    kind = header.partition(";")[0].strip().lower() or "text/plain"
    length = response.headers.get("content-length", "")
    body, cut = b"", False
    if is_text(kind):
        body, cut = await _unpacked(response, bytes_max)
    return Content(
        url=str(url),
        status=response.status_code,
        kind=kind,
        charset=response.charset_encoding or "",
        body=body,
        cut=cut,
        length=int(length) if length.isdigit() else None,
    )


async def _unpacked(response: httpx.Response, bytes_max: int) -> tuple[bytes, bool]:
    """(so much of the body, unpacked; whether there is more). What is packed never takes more memory than that."""
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ConnectionError(f"{response.url.host}: it is packed by {packing}, which was not asked for")
    unpack = None if packing in ("identity", "") else zlib.decompressobj(zlib.MAX_WBITS | 32)
    body = bytearray()
    async for part in response.aiter_raw():
        room = bytes_max + 1 - len(body)
        try:
            body += part[:room] if unpack is None else unpack.decompress(part, room)
        except zlib.error as error:
            raise ConnectionError(f"{response.url.host}: what it sent cannot be unpacked ({error})") from None
        if len(body) > bytes_max:
            return bytes(body[:bytes_max]), True
    return bytes(body), False
