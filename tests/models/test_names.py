"""What a model is called, in the log and for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.errors import RefusedError
from perdure.models.names import checked_model, name_of


def test_the_name_of_a_model_is_recorded_without_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checked_model("local:a/b.gguf") == f"local:{tmp_path}/a/b.gguf"
    assert checked_model("local") == name_of("local") == "local"
    assert checked_model("script:a/b.yaml") == f"script:{tmp_path}/a/b.yaml"
    assert name_of(f"script:{tmp_path}/a/b.yaml") == "script:b.yaml"
    at = "openai:qwen3@http://127.0.0.1:8000/v1"
    assert (checked_model(at), name_of(at)) == (at, "openai:qwen3")
    assert name_of(None) == ""
    for wrong in ("openai:x@https://ana:pw@example.org/v1", "openai:x@https://example.org/v1?api_key=k", "", 3):
        with pytest.raises(RefusedError) as refused:
            checked_model(wrong)
        assert "pw" not in str(refused.value)
