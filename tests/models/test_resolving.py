"""Which model a name means, what is told when there is none, and that no key goes where it does not belong."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

import perdure
from perdure import errors
from perdure.models import ask, resolve
from perdure.models.names import name_of
from tests.models.server import serving


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PERDURE_MODEL_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_what_pydantic_ai_knows_is_known(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert isinstance(resolve("test"), TestModel)
    assert resolve("openai:gpt-5").model_id == "openai:gpt-5"
    model = TestModel()
    assert resolve(model) is model


def test_a_server_by_its_url():
    model = resolve("openai:org/small:7b@http://127.0.0.1:9/v1")
    assert (model.model_name, model.base_url) == ("org/small:7b", "http://127.0.0.1:9/v1/")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt-5", "gpt-5: Unknown model: gpt-5"),
        ("nobody:x", "nobody:x: Unknown model: nobody:x"),
        ("openai:gpt-5", "openai:gpt-5: Set the `OPENAI_API_KEY` environment variable"),
        ("groq:llama", "groq:llama needs a package that is not installed: pip install 'pydantic-ai-slim[groq]'"),
    ],
)
def test_what_is_missing_is_told(name, message):
    with pytest.raises(errors.ModelError) as error:
        resolve(name)
    assert str(error.value).startswith(message)


def test_without_the_extra_it_is_named():
    code = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "import perdure.models\n"
        "try: perdure.models.ask\n"
        "except perdure.models.ModelError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "models need an extra that is not installed: pip install 'perdure[agents]'"


def test_a_name_tells_no_place_and_no_password():
    assert name_of("openai:small@http://user:word@10.0.0.1/v1") == "openai:small"
    assert name_of("script:some/folder/plan.yaml") == "script:plan.yaml"
    assert name_of("openai:gpt-5") == "openai:gpt-5"


def test_a_key_is_in_no_record_and_no_log(monkeypatch, caplog, tmp_path):
    key = "not-to-be-seen-anywhere"
    monkeypatch.setenv("PERDURE_MODEL_KEY", key)
    caplog.set_level(logging.DEBUG)

    @perdure.agent
    async def agent(s):
        return (await ask(s, server.model, "x")).output

    with serving(lambda asked: str(key in asked.headers["authorization"])) as server:
        store = perdure.open(f"file:///{tmp_path}/store")
        assert store.run(agent, "q").result == "True"
        store.close()
    files = [file for file in (tmp_path / "store").rglob("*") if file.is_file()]
    assert files
    assert not any(key.encode() in file.read_bytes() for file in files)
    assert key not in caplog.text


def test_one_object_is_asked_in_one_run_after_another():
    with serving(lambda asked: asked.said) as server, perdure.open("memory:") as store:
        provider = OpenAIProvider(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none")
        model = OpenAIChatModel("small", provider=provider)

        @perdure.agent
        async def agent(s):
            return (await ask(s, model, s.input)).output

        for session in ("a", "b"):
            assert store.run(agent, session, input=session).result == session
            assert provider.client._client.is_closed  # its connections end with the session
