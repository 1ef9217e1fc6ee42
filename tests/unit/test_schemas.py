"""The two schemas say the same, and the code in the package is the one that is generated from them."""

from __future__ import annotations

import re
from pathlib import Path

import capnp
from google.protobuf.descriptor import Descriptor

from perdure.values import capnproto
from perdure.values.schemas import perdure_pb2
from tests.unit.generate_schemas import PROTO, SOURCE, generated


def test_the_generated_code_is_that_of_the_schema() -> None:
    for name, text in generated().items():
        assert (SOURCE / PROTO).with_name(name).read_text() == text, "run: python -m tests.unit.generate_schemas"


def test_the_generated_code_asks_for_no_version_of_the_compiler() -> None:
    assert "runtime_version" not in (SOURCE / PROTO).with_name("perdure_pb2.py").read_text()


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def test_both_schemas_have_the_same_fields() -> None:
    schema = capnp.load(str(capnproto.SCHEMA))
    messages: dict[str, Descriptor] = dict(perdure_pb2.DESCRIPTOR.message_types_by_name)
    wrappers = {"List", "Dict", "Floats"}  # Cap'n Proto has lists in unions, Protocol Buffers has not
    only_cut = {"deep"}  # and bounds how deep messages are nested
    for name in set(messages) - wrappers:
        there = {snake(field) for field in getattr(schema, name).schema.fieldnames}
        assert set(messages[name].fields_by_name) - only_cut == there, name


def test_the_schemas_come_with_the_package() -> None:
    folder = Path(capnproto.__file__).parent / "schemas"
    assert {"perdure.proto", "perdure.capnp"} <= {path.name for path in folder.iterdir()}
