"""Two machines with a cable between them: network namespaces, one for a server and one for its clients.

No address of theirs is reachable from anywhere else. What happens on the cable is told to the server's side.
"""

from __future__ import annotations

import os
import subprocess
from typing import Self

SERVER, CLIENT = "10.203.7.1", "10.203.7.2"


class NoNetworkError(Exception):
    """Namespaces cannot be made here."""


def run(*words: str) -> None:
    """One command of the system. Raises `NoNetworkError`."""
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise NoNetworkError(f"{' '.join(words)}: {getattr(error, 'stderr', error)}") from error


class Network:
    """Made with the block, and gone with it."""

    def __init__(self) -> None:
        self._server, self._client = f"perdure-s{os.getpid()}", f"perdure-c{os.getpid()}"
        # Not `ip netns exec`: its processes would keep every file system mounted that is so when they begin.
        self.server = ("nsenter", f"--net=/run/netns/{self._server}")
        self.client = ("nsenter", f"--net=/run/netns/{self._client}")

    def __enter__(self) -> Self:
        try:
            for name in (self._server, self._client):
                run("ip", "netns", "add", name)
                run("ip", "-n", name, "link", "set", "lo", "up")
            cable = ("type", "veth", "peer", "name", "cable", "netns", self._client)
            run("ip", "-n", self._server, "link", "add", "cable", *cable)
            for name, address in ((self._server, SERVER), (self._client, CLIENT)):
                run("ip", "-n", name, "address", "add", f"{address}/30", "dev", "cable")
                run("ip", "-n", name, "link", "set", "cable", "up")
            run(*self.server, "iptables", "-L")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _remove(self) -> None:
        for name in (self._server, self._client):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def resets(self, port: int) -> None:
        """What comes for the server is answered with a reset."""
        self._rule(
            "INPUT", "-i", "cable", "-p", "tcp", "--dport", str(port), "-j", "REJECT", "--reject-with", "tcp-reset"
        )

    def is_silent(self, port: int) -> None:
        """What comes for the server is lost, and nobody is told."""
        self._rule("INPUT", "-i", "cable", "-p", "tcp", "--dport", str(port), "-j", "DROP")

    def loses_replies(self, port: int) -> None:
        """What the server says is lost; that it has heard, is not."""
        length = ("-m", "length", "--length", "53:65535")  # an acknowledgement alone is of 52 bytes
        self._rule("OUTPUT", "-o", "cable", "-p", "tcp", "--sport", str(port), *length, "-j", "DROP")

    def is_cut(self) -> None:
        """The cable is out."""
        run("ip", "-n", self._server, "link", "set", "cable", "down")

    def heals(self) -> None:
        """All is well again."""
        run(*self.server, "iptables", "-F")
        run("ip", "-n", self._server, "link", "set", "cable", "up")

    def _rule(self, chain: str, *words: str) -> None:
        run(*self.server, "iptables", "-I", chain, *words)
