"""The tree names no machine, no registry and no unfinished work, and its decisions are numbered and complete."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from perdure.values import outward

ROOT = Path(__file__).resolve().parents[2]
MADE = {".git", ".venv", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__", "dist"}

# Split, so that this file does not hold what it looks for.
MACHINE_PATHS = ["/" + folder + "/" for folder in ("work", "tmp", "root", "home")]
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
    )
]
UNFINISHED = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
PUBLISHED = ("src", "docs", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "changelog.d")
ADR_HEADINGS = ["Context", "Choice", "Cost", "How we would know it was wrong"]


def tracked() -> list[Path]:
    """The files of the repository; without git, all files that no tool has made."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        files = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        files = [path for path in ROOT.rglob("*") if not MADE & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in files if path.is_file())


def lines() -> list[tuple[str, str]]:
    """(place, line) of every text file; a place is `path:number`."""
    found = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        name = path.relative_to(ROOT).as_posix()
        text = content.decode(errors="replace")
        found += [(f"{name}:{number}", line) for number, line in enumerate(text.splitlines(), 1)]
    return found


def adr_pages() -> list[Path]:
    return sorted(path for path in (ROOT / "docs/adr").glob("*.md") if path.name != "README.md")


def test_the_walk_sees_the_tree() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in tracked()}
    assert {"pyproject.toml", ".ci/run", "src/perdure/errors.py", "docs/errors.md"} <= names


def test_no_path_of_a_machine_in_what_is_published() -> None:
    published = [(place, line) for place, line in lines() if place.partition(":")[0].startswith(PUBLISHED)]
    assert [place for place, line in published if any(path in line for path in MACHINE_PATHS)] == []


def test_no_registry_is_named() -> None:
    assert [place for place, line in lines() if any(host in line for host in REGISTRY_HOSTS)] == []


def test_nothing_is_left_for_later_in_a_comment() -> None:
    assert [place for place, line in lines() if UNFINISHED.search(line)] == []


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", pin)] == []
    assert pins == sorted(set(pins), key=str.casefold)


def test_decisions_are_numbered_without_gap_or_double() -> None:
    numbers = [path.name[:5] for path in adr_pages()]
    assert numbers == [f"{number:04}-" for number in range(1, len(numbers) + 1)]


def test_every_decision_says_what_it_costs_and_how_it_could_fail() -> None:
    for path in adr_pages():
        text = path.read_text()
        title, *_ = text.splitlines()
        assert re.fullmatch(rf"# {path.name[:4]}\. \S.*", title), (
            f"{path.name} must open with '# {path.name[:4]}. title'"
        )
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ADR_HEADINGS, path.name
        assert all(body.strip() for body in re.split(r"^## .+$", text, flags=re.MULTILINE)), path.name


def test_the_index_of_decisions_lists_them_all() -> None:
    index = (ROOT / "docs/adr/README.md").read_text()
    listed = re.findall(r"^- \[.+\]\(.+\)$", index, re.MULTILINE)
    titles = [(path, path.read_text().splitlines()[0].removeprefix("# ")) for path in adr_pages()]
    assert listed == [f"- [{title}]({path.name})" for path, title in titles]


def test_whatever_is_logged_is_masked() -> None:
    sources = (ROOT / "src").rglob("*.py")
    used = {name for path in sources for name in re.findall(r'getLogger\("([^"]+)"\)', path.read_text())}
    assert used - set(outward.LOGGERS) == set()
