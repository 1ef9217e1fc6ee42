"""Classes are found by name among those that the program made known, and nothing is imported to find one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

import perdure
from perdure.errors import ClassUnknownError
from perdure.runtime import entry
from perdure.team import names


class Act:
    def __init_subclass__(cls) -> None:
        names.register(cls)


class Write(Act):
    class Inner(Act):
        pass


def test_a_name_is_that_of_the_class_of_the_object_or_the_text() -> None:
    told = f"{Write.__module__}.Write"
    assert names.name_of(Write) == names.name_of(Write()) == names.name_of(told) == told


def test_a_class_in_a_class_is_addressed_by_its_last_name_and_built_by_its_full_one() -> None:
    assert names.name_of(Write.Inner) == f"{Write.__module__}.Inner"
    assert names.full_name(Write.Inner) == f"{Write.__module__}.Write.Inner"
    assert names.lookup(f"{Write.__module__}.Write.Inner", Act) is Write.Inner


def test_a_subclass_is_known_by_being_declared() -> None:
    assert names.lookup(f"{Write.__module__}.Write", Act) is Write


def test_an_unknown_class_is_refused_by_name_with_the_lines_that_make_it_known() -> None:
    with pytest.raises(ClassUnknownError) as caught:
        names.lookup("acts.WriteReport", Act)
    text = str(caught.value)
    assert "'acts.WriteReport'" in text
    assert "perdure.team.register(WriteReport, name='acts.WriteReport')" in text
    assert "perdure.allow('acts')" in text


def test_a_module_that_a_file_names_is_not_imported() -> None:
    with pytest.raises(ClassUnknownError):
        names.lookup("this.Zen", object)
    assert names.model_named("this", "Zen", object) is None
    assert "this" not in sys.modules


def test_a_renamed_class_stands_for_the_old_name_everywhere() -> None:
    class Renamed(Act):
        pass

    names.register(Renamed, name="acts.Old")
    assert names.lookup("acts.Old", Act) is Renamed
    assert names.name_of(Renamed) == names.full_name(Renamed) == names.name_of(Renamed()) == "acts.Old"

    class Heir(Renamed):
        pass

    assert names.name_of(Heir).endswith(".Heir")


def test_a_class_of_another_kind_is_refused() -> None:
    with pytest.raises(ClassUnknownError, match="is no BaseModel"):
        names.lookup(f"{Write.__module__}.Write", BaseModel)


def test_a_class_of_an_allowed_module_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "allowed_acts.py").write_text("class Draft: pass\nfrom pathlib import Path\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ClassUnknownError):
        names.lookup("allowed_acts.Draft", object)
    perdure.allow("allowed_acts")
    assert names.lookup("allowed_acts.Draft", object).__name__ == "Draft"
    with pytest.raises(ClassUnknownError):  # it is there, and another module's
        names.lookup("allowed_acts.Path", object)


PRINTS = "from perdure.team import names\nclass Write: pass\ndef told(): return names.name_of(Write)\n"


def test_a_class_has_one_name_however_its_file_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my_team.py"
    file.write_text(f"{PRINTS}if __name__ == '__main__': print(told())\n")
    told = {entry.load(f"{file}:told")()}
    for command in ([str(file)], ["-m", "my_team"]):
        run = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True)
        told.add(run.stdout.strip())
    assert told == {"my_team.Write"}


def test_a_console_has_no_file_to_be_named_by(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert names.module_name("__main__") == "__main__"
