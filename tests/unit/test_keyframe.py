"""What is written again and what is not, and what a keyframe refuses."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import values
from perdure.errors import DamageError, FormatNewerError
from perdure.state import keyframe

SIZE = 1000


def drained(folding: keyframe.Folding) -> tuple[Any, dict[bytes, bytes]]:
    while True:
        try:
            next(folding)
        except StopIteration as done:
            return done.value


def fold(manifest: Any, ops: list[Any], chunks: dict[bytes, bytes], size: int = SIZE) -> tuple[Any, dict[bytes, bytes]]:
    deltas = [values.decode(values.encode(ops))]
    manifest, new = drained(keyframe.fold(manifest, deltas, chunks.__getitem__, size=size))
    chunks |= new
    return manifest, new


def chat(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"id": i, "text": f"message {i} " * 5} for i in range(start, start + count)]


def test_the_empty_state() -> None:
    assert keyframe.restore(keyframe.EMPTY, {}.__getitem__) == {}
    assert keyframe.parts(keyframe.EMPTY) == []
    assert keyframe.dictionary_of(keyframe.EMPTY) is None
    assert keyframe.dictionary_of(fold(keyframe.EMPTY, [["set", ["a"], 1]], {})[0]) is None


def test_a_list_that_grows_keeps_its_full_runs() -> None:
    chunks: dict[bytes, bytes] = {}
    manifest, first = fold(keyframe.EMPTY, [["set", ["m"], chat(100)]], chunks)
    runs = manifest["parts"][0][1][1]
    read: list[bytes] = []

    def load(digest: bytes) -> bytes:
        read.append(digest)
        return chunks[digest]

    after, new = drained(keyframe.fold(manifest, [[["extend", ["m"], chat(3, 100)]]], load, size=SIZE))
    assert after["parts"][0][1][1][: len(runs) - 1] == runs[:-1]
    assert len(first) == len(runs) > 8
    assert len(new) == 1
    assert len(read) <= 1


def test_what_only_grows_is_written_a_few_times_in_all() -> None:
    chunks: dict[bytes, bytes] = {}
    manifest, written, size = keyframe.EMPTY, 0, 16_000
    manifest, _ = fold(manifest, [["set", ["m"], []]], chunks)
    for i in range(600):
        manifest, new = fold(manifest, [["extend", ["m"], chat(1, i)]], chunks, size)
        written += sum(len(values.unseal(frame)[1]) for frame in new.values())
    whole = keyframe.restore(manifest, chunks.__getitem__)
    assert whole == {"m": chat(600)}
    assert written < 8 * len(values.encode(whole))
    assert sum(run[3] < size // 4 for run in manifest["parts"][0][1][1]) < 8


def test_a_change_in_a_dict_writes_one_run() -> None:
    chunks: dict[bytes, bytes] = {}
    manifest, _ = fold(keyframe.EMPTY, [["set", ["d"], {f"k{i}": "x" * 90 for i in range(100)}]], chunks)
    manifest, new = fold(manifest, [["set", ["d", "k50"], "y"]], chunks)
    assert len(new) == 1
    restored = keyframe.restore(manifest, chunks.__getitem__, part="d")
    assert list(restored) == [f"k{i}" for i in range(100)]
    assert restored["k50"] == "y"


def test_what_lies_still_beside_a_few_entries_that_change_is_written_once() -> None:
    chunks: dict[bytes, bytes] = {}
    still = [(f"k{i}", "some text " * 50) for i in range(40)]
    value: dict[str, Any] = {**dict(still[:20]), "n": 0, "at": 0.0, **dict(still[20:])}
    manifest, _ = fold(keyframe.EMPTY, [["set", ["d"], value]], chunks, 1 << 18)
    written = []
    for i in range(1, 5):
        manifest, new = fold(manifest, [["set", ["d", "n"], i], ["set", ["d", "at"], i / 2]], chunks, 1 << 18)
        written.append(sum(len(values.unseal(frame)[1]) for frame in new.values()))
    assert written[0] > 20_000
    assert max(written[1:]) < 50
    whole = keyframe.restore(manifest, chunks.__getitem__)["d"]
    assert list(whole.items()) == [*still[:20], ("n", 4), ("at", 2.0), *still[20:]]


@pytest.mark.parametrize("changed", [range(0, 40, 2), range(20)], ids=["here and there", "half"])
def test_what_changes_all_over_stays_in_one_run(changed: range) -> None:
    chunks: dict[bytes, bytes] = {}
    value = {f"k{i}": "some text " * 50 for i in range(40)}
    manifest, _ = fold(keyframe.EMPTY, [["set", ["d"], value]], chunks, 1 << 18)
    for text in ("other text " * 50, "more " * 100):
        manifest, _ = fold(manifest, [["set", ["d", f"k{i}"], text] for i in changed], chunks, 1 << 18)
    assert len(manifest["parts"][0][1][1]) == 1


def test_a_big_item_is_a_piece_of_its_own() -> None:
    chunks: dict[bytes, bytes] = {}
    docs = {"one": {"body": chat(50)}, "two": {"body": chat(50)}}
    manifest, _ = fold(keyframe.EMPTY, [["set", ["d"], docs]], chunks)
    manifest, new = fold(manifest, [["set", ["d", "two", "body", 0, "text"], "new"]], chunks)
    assert len(new) == 1
    docs["two"]["body"][0]["text"] = "new"
    assert keyframe.restore(manifest, chunks.__getitem__) == {"d": docs}


def test_small_parts_share_a_chunk() -> None:
    chunks: dict[bytes, bytes] = {}
    manifest, new = fold(keyframe.EMPTY, [["set", [name], [name]] for name in "abc"], chunks)
    assert len(new) == 1
    manifest, new = fold(manifest, [["set", ["m"], chat(50)]], chunks)
    assert next(iter(manifest["parts"]))[1][0] == "s"
    assert keyframe.restore(manifest, chunks.__getitem__, part="b") == ["b"]
    assert not fold(manifest, [], chunks)[1]


def test_the_same_content_has_the_same_address() -> None:
    one, two = (fold(keyframe.EMPTY, [["set", ["m"], chat(100)]], {})[0] for _ in "ab")
    assert one == two


def test_the_dictionary_is_the_newest_full_run_of_what_is_largest() -> None:
    ops = [["set", ["m"], chat(200)], ["set", ["d"], {"a": "x" * 6000}]]
    manifest, _ = fold(keyframe.EMPTY, ops, {}, size=4000)
    runs = [run for run in manifest["parts"][0][1][1] if run[3] > 2000]
    assert keyframe.dictionary_of(manifest) == runs[-1][2]


def test_a_damaged_and_a_missing_chunk_are_named() -> None:
    chunks: dict[bytes, bytes] = {}
    manifest, _ = fold(keyframe.EMPTY, [["set", ["m"], chat(100)]], chunks)
    digest = manifest["parts"][0][1][1][3][2]
    chunks[digest] = chunks[digest][:-1] + b"x"
    with pytest.raises(DamageError, match=digest.hex()):
        keyframe.restore(manifest, chunks.__getitem__)
    with pytest.raises(DamageError, match=digest.hex()):
        fold(manifest, [["set", ["m", 40, "text"], 1]], chunks)
    with pytest.raises(DamageError, match="'x'"):
        keyframe.restore(manifest, chunks.__getitem__, part="x")


@pytest.mark.parametrize(
    "manifest", [{}, None, {"format": 1}, {"format": "1", "parts": []}, {"format": 1, "parts": [1]}]
)
def test_what_is_no_manifest_is_damage(manifest: Any) -> None:
    with pytest.raises(DamageError):
        keyframe.parts(manifest)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(FormatNewerError):
        keyframe.restore({"format": 2, "parts": []}, {}.__getitem__)
