"""What a type checker must see of the errors. Checked by mypy, never run."""

from __future__ import annotations

from typing import assert_type

from perdure.errors import Leaving, PerdureError, RecordedError, Suspended, SuspendedError, UnstorableError


def attributes(unstorable: UnstorableError, suspended: SuspendedError, recorded: RecordedError) -> None:
    assert_type(unstorable.path, str)
    assert_type(suspended.seqs, tuple[int, ...])
    assert_type(recorded.kind, str)
    assert_type(PerdureError.code, str)
    assert_type(PerdureError.exit_status, int)


def control_flow_is_not_an_error() -> None:
    try:
        raise Suspended((3,))
    except PerdureError as error:
        assert_type(error, PerdureError)
    except Leaving as leaving:
        assert_type(leaving, Leaving)
