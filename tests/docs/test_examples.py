"""Every Python example of the documentation is run, crashed everywhere, or says in a comment why not.

A comment stands above the block: `<!-- not run: the reason -->`, or `<!-- run: input="x", answers={} -->` with what
`crash_everywhere` is to be told.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import perdure
import perdure.models.asking  # loaded once, not in each life
from perdure.session.declare import AGENT
from perdure.testing import Report, crash_everywhere
from tests.instants import POINTS, asked_for

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
NAMES = ("agent", "worker")
NOT_RUN, RUN = "not run:", "run:"


@dataclass(frozen=True)
class Example:
    """One block of Python code, where it stands, and what the comment above it says."""

    place: str
    code: str
    note: str

    @property
    def options(self) -> dict[str, Any]:
        """What `crash_everywhere` is told."""
        call = ast.parse(f"told({self.note.removeprefix(RUN)})", mode="eval").body
        assert isinstance(call, ast.Call)
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}


def examples(text: str, *, page: str) -> Iterator[Example]:
    """The blocks of a page, in order."""
    lines = iter(enumerate(text.splitlines(), 1))
    note = ""
    for number, line in lines:
        if line.strip().startswith("<!--"):
            note = line.strip().removeprefix("<!--").removesuffix("-->").strip()
        elif line.strip() in ("```python", "```py"):
            code = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                code.append(inner)
            yield Example(f"{page}:{number}", textwrap.dedent("\n".join(code)), note)
            note = ""
        elif line.strip():
            note = ""


def every() -> list[Example]:
    return [
        example
        for page in PAGES
        for example in examples(page.read_text(encoding="utf-8"), page=page.relative_to(ROOT).as_posix())
    ]


EVERY = every()


def run(example: Example, folder: Path) -> list[Report]:
    """Crashes the agents of an example everywhere: by its own tests if it has some, else as its comment says."""
    module = imported(example, folder)
    crash = partial(crash_everywhere, points=POINTS)
    tests = [value for name, value in vars(module).items() if name.startswith("test_") and callable(value)]
    if tests:
        return [by_its_own(test, crash) for test in tests]
    agents = [value for name, value in vars(module).items() if name in NAMES or declared_in(module, value)]
    assert agents, f"{example.place}: no agent in it to run: say why above it, as <!-- {NOT_RUN} the reason -->"
    told = {"effects": partial(lines_in, folder), "fresh": partial(clear, folder), **example.options}
    return [crash(agent, **told) for agent in agents]


def by_its_own(test: Callable[..., Any], crash: Callable[..., Report]) -> Report:
    """Calls a test of an example with the fixture that it asks for."""
    reports = []

    def fixture(*args: Any, **kwargs: Any) -> Report:
        reports.append(crash(*args, **kwargs))
        return reports[-1]

    assert list(inspect.signature(test).parameters) == ["crash_everywhere"]
    test(crash_everywhere=fixture)
    return reports[0]


def imported(example: Example, folder: Path) -> ModuleType:
    file = folder / "example.py"
    file.write_text(example.code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("documented_example", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def declared_in(module: ModuleType, value: Any) -> bool:
    return hasattr(value, AGENT) and getattr(value, "__module__", "") == module.__name__


def lines_in(folder: Path) -> dict[str, int]:
    """What an example's tools have written beside it: the name of a file → its lines."""
    return {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in written_in(folder)}


def written_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file() and path.suffix not in (".py", ".db")]


def clear(folder: Path) -> None:
    """Without it, what a `verify` looks at would be there from the life before."""
    for path in written_in(folder):
        path.unlink()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of an example."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("documented_example", None)


@pytest.mark.storm
@pytest.mark.parametrize("example", [pytest.param(e, id=e.place) for e in EVERY if not e.note.startswith(NOT_RUN)])
def test_an_example_goes_on_from_anywhere(example: Example, folder: Path) -> None:
    for report in run(example, folder):
        assert report.killed == asked_for(report)
        assert report.lives > 4


@pytest.mark.parametrize("example", [pytest.param(e, id=e.place) for e in EVERY if not e.note.startswith(NOT_RUN)])
def test_an_example_replays_the_same(example: Example, folder: Path) -> None:
    module = imported(example, folder)
    agents = [value for name, value in vars(module).items() if name in NAMES or declared_in(module, value)]
    with perdure.open("memory:") as store:
        for number, agent in enumerate(agents):
            live(store, agent, f"{number}", example.options if example.note else {})
            found = store.replay(f"{number}", agent)
            assert found.same, found.difference
            assert found.upto == found.records or found.next


def live(store: perdure.AgentStore, agent: Callable[..., Any], session: str, options: dict[str, Any]) -> None:
    """Runs an agent until it waits for nobody."""
    answers = options.get("answers", {})
    outcome = store.run(agent, session, input=options.get("input"))
    for _ in range(9):
        for question in outcome.questions:
            if question.kind == "doubt":
                store.settle(session, question.seq, "not-done")
            else:
                asked = next(entry for entry in store.log(session) if entry.seq == question.seq)
                said = answers.get(asked["key"], answers.get(question.prompt))
                store.answer(session, question.seq, question.choices[0] if question.choices else said)
        if outcome.status != "waiting":
            return
        outcome = store.run(agent, session)


def test_what_is_not_run_has_a_reason() -> None:
    assert [e.place for e in EVERY if e.note.startswith(NOT_RUN) and len(e.note) < 30] == []


def test_the_readme_has_an_example_that_is_run() -> None:
    assert any(e.place.startswith("README.md:") and not e.note.startswith(NOT_RUN) for e in EVERY)


# --- the extractor itself --------------------------------------------------------------------------------------------

PAGE = """
<!-- not run: it is the beginning of a file -->
```python
import perdure
```

<!-- run: input=["a"], answers={"go": "yes"} -->

```python
def agent(s): return s.input
```
<!-- not run: but something stands between -->
text
* in a list:

  ```python
  x = 1
  ```
"""


def test_blocks_are_found_with_what_is_said_of_them() -> None:
    first, second, third = examples(PAGE, page="p.md")
    assert (first.place, first.code, first.note) == (
        "p.md:3",
        "import perdure",
        "not run: it is the beginning of a file",
    )
    assert second.options == {"input": ["a"], "answers": {"go": "yes"}}
    assert (third.code, third.note) == ("x = 1", "")


def test_a_block_that_cannot_be_run_and_does_not_say_why_fails(folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"p\.md:1: no agent in it to run"):
        run(Example("p.md:1", "import perdure\n", ""), folder)


def test_a_wrong_example_fails(folder: Path) -> None:
    wrong = """
        def agent(s):
            with open("sent.txt", "a") as file:
                file.write("outside of any action\\n")
            s.save()
            s.state["x"] = 1
    """
    with pytest.raises(AssertionError, match="'sent' happened 2 times"):
        run(Example("p.md:1", textwrap.dedent(wrong), ""), folder)
