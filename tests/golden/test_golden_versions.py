"""A session of older versions of an agent, kept for ever: it is read, and code of the last version goes on."""

from __future__ import annotations

import pytest

import perdure
from tests.golden import make, versions

NAME = "versions.exported"


@pytest.mark.parametrize("version", [version for version in ("v1",) if NAME in make.expected(version)])
def test_a_session_of_older_versions_is_read_and_gone_on_with(version: str) -> None:
    with perdure.open("memory:") as store:
        store.import_file(make.FOLDER / version / NAME)
        assert make.facts_of(store, versions.SUBJECT) == make.expected(version)[NAME][versions.SUBJECT]
        kinds = [entry.kind for entry in store.log(versions.SUBJECT)]
        assert (kinds.count("migrated"), kinds.count("edited")) == (1, 2)
        assert store.verify(versions.SUBJECT, read_data=True).ok
        assert store.run(versions.agent("golden 3"), versions.SUBJECT).result == versions.RESULT
        assert store.verify(versions.SUBJECT, read_data=True).ok
