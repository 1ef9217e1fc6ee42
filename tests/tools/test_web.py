"""Fetching and searching real servers on loopback: nothing is asked that was not allowed, nothing is unbounded."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import json
import socket
import ssl
import threading
import time
import tracemalloc
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import certifi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import perdure
from perdure import errors
from perdure.tools import Hit, SearXNG, web
from perdure.tools.internet.addresses import Allowed, is_public
from perdure.tools.internet.pages import html_text

BOMB = gzip.compress(bytes(200 << 20), 9)


class Handler(BaseHTTPRequestHandler):
    """Answers by the path. What was asked is kept by the server."""

    def do_GET(self):
        self.server.asked.append((self.headers["Host"], self.path, dict(self.headers)))
        answer = getattr(self, "get_" + urlsplit(self.path).path.strip("/").replace(".", "_"), None)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if answer is None:
                self.told(404, "text/plain", b"nothing here")
            else:
                answer()

    def told(self, status, kind, body, **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def get_page(self):
        head = "<html><head><title>Title</title><script>bad()</script></head>"
        body = f"{head}<body><h1>Über</h1><p>one <a href='/x'>two</a>"
        self.told(200, "text/html; charset=latin-1", body.encode("latin-1"), Set_Cookie="a=b")

    def get_image(self):
        self.told(200, "image/png", b"\x89PNG" + bytes(1000))

    def get_bomb(self):
        self.told(200, "text/plain", BOMB, Content_Encoding="gzip")

    def get_endless(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        while True:
            self.wfile.write(b"x" * 65536)

    def get_slow(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        while not self.server.over.wait(0.05):
            self.wfile.write(b"x")

    def get_slow_head(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.server.over.wait(0.05):
            self.wfile.write(b"X-Y: z\r\n")

    def get_packed(self):
        self.told(200, "text/plain", gzip.compress(b"unpacked"), Content_Encoding="gzip")

    def get_broken(self):
        self.told(200, "text/plain", b"no gzip at all", Content_Encoding="gzip")

    def get_odd(self):
        self.told(200, "text/plain", b"???", Content_Encoding="br")

    def get_to(self):
        target = parse_qs(urlsplit(self.path).query)["url"][0]
        self.told(302, "text/plain", b"", Location=target)

    def get_round(self):
        self.told(302, "text/plain", b"", Location="/round")

    def get_search(self):
        asked = parse_qs(urlsplit(self.path).query)
        hits = [{"title": f"hit {n}", "url": f"http://example.org/{n}", "content": asked["q"][0]} for n in range(8)]
        body = json.dumps({"results": hits}) if asked.get("format") == ["json"] else "<html>"
        self.told(200, "application/json", body.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.asked, made.over = [], threading.Event()
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.over.set()
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def base(server):
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def here(server):
    """A set that may ask this server."""
    return web(local=[f"127.0.0.1:{server.server_port}"], seconds=20)


def fetched(toolbox, url):
    result = toolbox.call_sync(None, "fetch", {"url": url})
    assert result.ok, result.text
    return result.value


def refused(toolbox, url):
    result = toolbox.call_sync(None, "fetch", {"url": url})
    assert result.problem == "error", result.text
    return result.text


@pytest.fixture
def names(monkeypatch):
    """Names that lead where a test says; the first answer is given once, the second from then on."""
    known, real = {}, socket.getaddrinfo

    def look(host, port, *args, **kwargs):
        answers = known.get(host)
        if answers is None:
            return real(host, port, *args, **kwargs)
        address = answers.pop(0) if len(answers) > 1 else answers[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look)
    return known


# --- pages -----------------------------------------------------------------------------------------------------------


def test_a_page_is_its_text(here, base):
    page = fetched(here, f"{base}/page#part")
    assert (page.status, page.kind, page.cut) == (200, "text/html", False)
    assert page.text.splitlines() == ["Title", "", "# Über", "", f"one [two]({base}/x)"]
    assert page.as_text().startswith(f"{base}/page: status 200, text/html\n\nTitle")
    assert fetched(here, f"{base}/packed").text == "unpacked"
    assert fetched(here, f"{base}/missing").status == 404


def test_what_is_no_text_is_told_and_not_read(here, base):
    assert fetched(here, f"{base}/image").text == "(no text, 1,004 bytes: it was not read)"


def test_html_is_told_as_text():
    html = "<ul><li>a</li><li>b</ul><pre>  x\n    y</pre><style>p</style><table><tr><td>1<td>2</table>a&amp;b<p>\n\n c"
    assert html_text(html).splitlines() == ["- a", "", "- b", "", "x", "    y", "", "| 1 | 2", "a&b", "c"]


def test_a_broken_answer_is_told(here, base):
    assert "cannot be unpacked" in refused(here, f"{base}/broken")
    assert "packed by br" in refused(here, f"{base}/odd")


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_a_bomb_takes_no_more_than_its_bound(here, base):
    tracemalloc.start()
    try:
        page = fetched(here, f"{base}/bomb")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (page.cut, len(page.text)) == (True, 5 << 20)
    assert peak < 60 << 20


def test_an_endless_page_is_cut(server, base):
    toolbox = web(local=[f"127.0.0.1:{server.server_port}"], bytes_max=100_000)
    page = fetched(toolbox, f"{base}/endless")
    assert (page.cut, len(page.text)) == (True, 100_000)


@pytest.mark.parametrize("path", ["slow", "slow_head"])
def test_a_slow_server_is_given_up(server, base, path):
    toolbox = web(local=[f"127.0.0.1:{server.server_port}"], seconds=0.5)
    began = time.monotonic()
    assert "took longer than 0.5 s" in refused(toolbox, f"{base}/{path}")
    assert time.monotonic() - began < 60


def test_a_server_that_is_not_there_is_told(here):
    with socket.socket() as bound:  # bound, and does not listen
        bound.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{bound.getsockname()[1]}"
        assert "ConnectionError" in refused(web(local=[place]), f"http://{place}/")


# --- what may be asked -----------------------------------------------------------------------------------------------


def test_nothing_is_asked_that_was_not_allowed(server, base):
    assert "this host is not allowed; allowed are: none" in refused(web(), f"{base}/page")
    assert "not allowed" in refused(web(allow=["example.org"]), f"{base}/page")
    assert "no address of the internet" in refused(web(allow=["*"]), f"{base}/page")
    assert "no address of the internet" in refused(web(allow=["127.0.0.1"]), f"{base}/page")
    port = server.server_port
    for odd in (
        f"http://localhost:{port}/",
        f"http://2130706433:{port}/",
        f"http://127.1:{port}/",
        f"http://0:{port}/",
    ):
        assert "no address of the internet" in refused(web(allow=["*"]), odd)
    assert "name and password" in refused(web(allow=["*"]), f"http://example.org@127.0.0.1:{port}/")
    assert server.asked == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.org/", "gopher://x", "page", "http://", "http://[::"]
)
def test_what_is_no_address_of_the_web_is_refused(url):
    assert "ValueError" in refused(web(allow=["*"]), url)


def test_a_redirect_is_followed_only_where_it_may_lead(here, server, base):
    other = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    other.asked = []
    thread = threading.Thread(target=other.serve_forever)
    thread.start()
    try:
        assert fetched(here, f"{base}/to?url=/page").url == f"{base}/page"
        for target in (f"http://127.0.0.1:{other.server_port}/page", f"http://localhost:{server.server_port}/page"):
            assert "not allowed" in refused(here, f"{base}/to?url={target}")
        assert "ValueError" in refused(here, f"{base}/to?url=file:///etc/passwd")
        assert "redirects" in refused(here, f"{base}/round")
        assert other.asked == []
    finally:
        other.shutdown()
        thread.join()
        other.server_close()


def test_a_name_that_leads_elsewhere_a_moment_later_gains_nothing(server, names):
    """What is connected to is the address that was checked; asked again, the name would lead to this server."""
    names["rebound.example"] = ["192.0.2.1", "127.0.0.1"]
    port = server.server_port
    told = refused(web(allow=["rebound.example"], seconds=1), f"http://rebound.example:{port}/page")
    assert "192.0.2.1, which is no address of the internet" in told
    assert server.asked == []


def test_the_address_that_was_checked_is_the_one_that_is_asked(server, names, monkeypatch):
    names["rebound.example"] = ["127.0.0.1", "127.0.0.2"]
    monkeypatch.setattr("perdure.tools.internet.addresses.is_public", lambda address: address == "127.0.0.1")
    page = fetched(web(allow=["*.example"]), f"http://rebound.example:{server.server_port}/page")
    assert page.status == 200
    ((host, _, headers),) = server.asked
    assert host == f"rebound.example:{server.server_port}"
    assert "Cookie" not in headers


def certificate(folder, name):
    """A certificate for a name, signed by itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return str(path)


@pytest.mark.parametrize("name", ["secure.example", "other.example"])
def test_a_certificate_is_that_of_the_name_not_of_the_address(server, names, monkeypatch, tmp_path, name):
    pem = certificate(tmp_path, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    asked = []
    context.sni_callback = lambda _, sni, __: asked.append(sni)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setattr(certifi, "where", lambda: pem)
    names["secure.example"] = ["127.0.0.1"]
    toolbox = web(local=[f"secure.example:{server.server_port}"], seconds=20)
    url = f"https://secure.example:{server.server_port}/packed"
    if name == "secure.example":
        assert fetched(toolbox, url).text == "unpacked"
    else:
        assert "CERTIFICATE_VERIFY_FAILED" in refused(toolbox, url)
        assert server.asked == []
    assert asked == ["secure.example"]


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:4700::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - it is asked about, not bound
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("::127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d822", True),
        ("2002:7f00:1::", False),
        ("2001:0:1::", False),
    ],
)
def test_which_addresses_are_of_the_internet(address, public):
    assert is_public(address) is public


def test_what_is_no_host_is_refused_when_the_tools_are_made():
    for wrong in ({"allow": "example.org"}, {"allow": ["http://example.org"]}, {"local": ["localhost"]}):
        with pytest.raises(errors.RefusedError):
            web(**wrong)
    assert Allowed.of(["*.Example.org"], []).hosts == ("*.example.org",)
    with pytest.raises(PermissionError):
        Allowed.of(["*.example.org"], []).addresses("http", "badexample.org", None)


# --- searching -------------------------------------------------------------------------------------------------------


def test_a_search_by_searxng(base, server):
    toolbox = web(search=SearXNG(base, language="en"))
    told = toolbox.call_sync(None, "search_web", {"query": "what & where", "count": 2})
    assert told.text == ("hit 0\nhttp://example.org/0\nwhat & where\n\nhit 1\nhttp://example.org/1\nwhat & where")
    assert "language=en" in server.asked[0][1]


def test_a_provider_of_ones_own_and_one_that_is_not_there(base):
    class Own:
        def search(self, query, *, count):
            return [Hit("title", "http://example.org", query)][:count]

    assert web(search=Own()).call_sync(None, "search_web", {"query": "q"}).text == "title\nhttp://example.org\nq"
    told = web(search=SearXNG(f"{base}/page")).call_sync(None, "search_web", {"query": "q"})
    assert "it answered 404" in told.text
    with pytest.raises(errors.RefusedError, match="address of a server"):
        SearXNG("localhost")
    assert "search_web" not in web()


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_in_a_session_a_page_is_fetched_once(server, here, base, kind):
    @perdure.agent
    def agent(s):
        text = here.call_sync(s, "fetch", {"url": f"{base}/packed"}).value.text
        if s.restored is None:
            raise RuntimeError("after it")
        return text

    @perdure.agent
    async def in_loop(s):
        text = (await here.call(s, "fetch", {"url": f"{base}/packed"})).value.text
        if s.restored is None:
            raise RuntimeError("after it")
        return text

    with perdure.open("memory:") as store:
        chosen = agent if kind == "threads" else in_loop
        assert store.run(chosen, "q").status == "failed"
        assert store.run(chosen, "q").result == "unpacked"
    assert len(server.asked) == 1
