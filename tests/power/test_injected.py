"""One call to the file system fails: it is seen at once, nothing acknowledged is missing, and the session goes on.

Every write, sync, rename, creation, cut and deletion of a life fails in turn (in `make test` some of them), once or
from there on until the failure was seen. The calls themselves are traced and judged.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.power import injected
from tests.power.lived import ALL, SHORT, STEP, STORES, faults_of, lives, unsafe_syncs

pytestmark = pytest.mark.storm


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("kind", STORES)
def test_a_call_that_fails_once(kind: str, error: int, library: Path) -> None:
    tried = lives(library, STORES[kind], kinds=ALL, error=error, step=STEP)
    assert [wrong for life in tried for wrong in faults_of(life)] == []


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("kind", STORES)
def test_calls_that_fail_until_it_is_seen(kind: str, error: int, library: Path) -> None:
    tried = lives(library, STORES[kind], kinds=ALL, error=error, count=injected.FOR_EVER, step=3 * STEP)
    assert [wrong for life in tried for wrong in faults_of(life)] == []


@pytest.mark.parametrize("kind", STORES)
def test_a_write_that_is_cut_short(kind: str, library: Path) -> None:
    tried = lives(library, STORES[kind], kinds="W", error=SHORT, step=STEP)
    assert [wrong for life in tried for wrong in [*life["wrong"], *unsafe_syncs(life["trace"])]] == []


@pytest.mark.parametrize("kind", STORES)
def test_a_failure_says_what_failed_and_where(kind: str, library: Path) -> None:
    told = [
        text for life in lives(library, STORES[kind], kinds="WS", error=errno.ENOSPC, step=9) for text in life["raised"]
    ]
    assert told
    assert all("/agents" in text for text in told)
    assert any("full" in text for text in told)


def test_a_right_saver_passes(library: Path) -> None:
    tried = lives(library, "Appending", kinds="WS", error=errno.EIO)
    tried += lives(library, "Appending", kinds="W", error=SHORT)
    assert [wrong for life in tried for wrong in faults_of(life)] == []


def test_a_saver_that_syncs_again_is_caught(library: Path) -> None:
    tried = lives(library, "Insisting", kinds="S", error=errno.EIO)
    assert "a failure was not seen" in str([faults_of(life) for life in tried])
    assert any("rests on a failed sync" in wrong for life in tried for wrong in unsafe_syncs(life["trace"]))
    assert any("was synced again" in wrong for life in tried for wrong in unsafe_syncs(life["trace"]))


def test_a_saver_that_does_not_count_is_caught(library: Path) -> None:
    tried = lives(library, "Insisting", kinds="W", error=SHORT)
    assert any("were acknowledged" in wrong for life in tried for wrong in life["wrong"])
