"""Imports go one way, and what starts fast stays without torch."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("acfs", "search", "objectives", "results", "cli")
HEAVY = ("torch", "triton", "helion")
NEVER_IN_THE_MAIN_PROCESS = (*HEAVY, "compileiq", "ray", "pandas", "scipy")
MAIN_PROCESS_MODULES = (
    "cli.main",
    "cli.app",
    "cli.pipeline",
    "results.session",
    "results.ledger",
    "results.doctor",
    "results.measured_run",
    "objectives.evaluate",
    "objectives.measured",
    "objectives.gpu_process",
    "objectives.helion_peer",
    "objectives.worker_pool",
    "objectives.artifacts",
    "objectives.check_child",
    "objectives.compile_environment",
    "search.strategies.registry",
)


def sources(package: str) -> list[Path]:
    return sorted(path for path in (ROOT / package).rglob("*.py") if "__pycache__" not in path.parts)


FILES = [(package, path) for package in PACKAGES for path in sources(package)]
each_file = pytest.mark.parametrize(
    ("package", "path"), FILES, ids=[str(path.relative_to(ROOT)) for _, path in FILES]
)


def imported(nodes: Iterator[ast.AST], path: Path) -> set[str]:
    """The absolute names of all modules that `nodes` of the file at `path` import."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(node, path)
            names.add(module)
            names.update(f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names.update(str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant))
    return names


def absolute(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = ["helitune", *path.relative_to(ROOT).parent.parts]
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def at_module_level(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes that run at import: not those in functions, nor under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from at_module_level(node)


def tops(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_there_are_files_to_look_at() -> None:
    assert {package for package, _ in FILES} == set(PACKAGES)
    assert len(FILES) > 50


@each_file
def test_a_package_imports_only_itself_and_those_before_it(package: str, path: Path) -> None:
    ours = {
        name.split(".")[1]
        for name in imported(ast.walk(ast.parse(path.read_text())), path)
        if name.startswith("helitune.")
    }
    assert ours <= set(PACKAGES[: PACKAGES.index(package) + 1])


@each_file
def test_torch_triton_and_helion_are_imported_in_objectives_only(package: str, path: Path) -> None:
    if package != "objectives":
        assert not tops(imported(ast.walk(ast.parse(path.read_text())), path)) & set(HEAVY)


@each_file
def test_strategies_import_compileiq_when_they_run(package: str, path: Path) -> None:
    assert "compileiq" not in tops(imported(at_module_level(ast.parse(path.read_text())), path))


def test_the_direction_check_sees_lazy_and_relative_imports(tmp_path: Path) -> None:
    code = (
        "def f():\n    from ..cli import main\n    import helitune.results.trial\n    from .space import x\n"
    )
    found = imported(ast.walk(ast.parse(code)), ROOT / "search" / "space.py")
    assert found >= {"helitune.cli", "helitune.cli.main", "helitune.results.trial", "helitune.search.space"}


@pytest.mark.parametrize("module", MAIN_PROCESS_MODULES)
def test_a_module_of_the_main_process_imports_nothing_heavy(module: str) -> None:
    code = (
        f"import json, sys, helitune.{module}\n"
        f"print(json.dumps(sorted(set({NEVER_IN_THE_MAIN_PROCESS!r}) & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_pyproject_lists_every_package_and_where_it_is() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert setup["package-dir"] == {f"helitune.{folder.replace('/', '.')}": folder for folder in folders}
    assert sorted(setup["packages"]) == sorted(setup["package-dir"])


def test_top_level_packages_are_the_known_ones() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found == set(PACKAGES)
    assert not (ROOT / "__init__.py").exists()


def test_the_link_tree_points_type_checkers_at_every_package() -> None:
    tree = ROOT / "tests" / "linktree" / "helitune"
    links = {link.name: os.readlink(link) for link in tree.iterdir()}
    assert links == {package: f"../../../{package}" for package in PACKAGES}
    assert all((tree / package / "__init__.py").is_file() for package in PACKAGES)
