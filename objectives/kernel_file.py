"""Import a kernel file as the user's own Python would, and say where it fails.

The file gets its own name: `softmax.py` becomes `softmax`, `softmax.py` of the package `ops` becomes
`ops.softmax`. Helion's generated code imports it by that name. A name that already means something else
(`random.py`, `torch.py`) is left alone, and the file is registered under a longer one.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from helitune.acfs.errors import InputError

from .user_code import call_user_code


def load_kernel_file(path: Path) -> ModuleType:
    """The imported module; the same one when the same file is loaded again.

    Nothing runs as `__main__`, and what the file prints goes to stderr. Its folder stays on sys.path, last.
    Whatever the file raises, SystemExit included, becomes an InputError with the innermost line of the file.
    """
    path = _checked(path)
    loaded = _loaded(path)
    if loaded is not None:
        return loaded
    # imported before the neighbours can be found: one of them may be called triton.py
    importlib.import_module("helion")
    top = _topmost_package(path)
    package = _package_name(top) if top else None
    name = path.stem if top else _module_name(path)
    folders = [str(path.parent)] + ([str(top.parent)] if top else [])
    with _script_arguments(path), _neighbours_first(folders):
        return call_user_code(lambda: _import(name, package, top, path), path, "importing it")


def _checked(path: Path) -> Path:
    if not path.exists():
        raise InputError(
            "no such file", where=str(path), next_step="give the path of a Python file: FILE[:KERNEL]"
        )
    if path.is_dir() or path.suffix != ".py":
        what = "a folder, not a kernel file" if path.is_dir() else "not a Python file"
        raise InputError(what, where=str(path), next_step="give the .py file that defines the kernel")
    return path.resolve()


def _loaded(path: Path) -> ModuleType | None:
    for name, module in list(sys.modules.items()):
        # not getattr: lazy modules import half the world when they are asked for an attribute
        if name != "__main__" and _is_file(getattr(module, "__dict__", {}).get("__file__"), path):
            return module
    return None


def _is_file(name: object, path: Path) -> bool:
    return isinstance(name, str) and name.endswith(path.name) and Path(name).resolve() == path


def _topmost_package(path: Path) -> Path | None:
    top = None
    folder = path.parent
    while (folder / "__init__.py").is_file() and _is_importable(folder.name):
        top, folder = folder, folder.parent
    return top if _is_importable(path.stem) else None


def _is_importable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _package_name(top: Path) -> str:
    return top.name if _is_free(top.name, top / "__init__.py") else _unique_name(top)


def _module_name(path: Path) -> str:
    return path.stem if _is_importable(path.stem) and _is_free(path.stem, path) else _unique_name(path)


def _is_free(name: str, path: Path) -> bool:
    """Whether `name` may stand for `path` in sys.modules without hiding a module that others import."""
    if name in sys.stdlib_module_names:
        return False
    if name in sys.modules:
        return _is_file(getattr(sys.modules[name], "__file__", None), path)
    spec = importlib.util.find_spec(name)
    # a spec without origin is a plain folder of that name somewhere on sys.path
    return spec is None or spec.origin is None or _is_file(spec.origin, path)


def _unique_name(path: Path) -> str:
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    return f"kernel_file_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{digest}"


def _import(name: str, package: str | None, top: Path | None, path: Path) -> ModuleType:
    if package is None or top is None:
        return _execute(name, path)
    if package != top.name and package not in sys.modules:
        _execute(package, top / "__init__.py", [str(top)])
    below = path.relative_to(top).with_suffix("").parts
    return importlib.import_module(".".join((package, *below)))


def _execute(name: str, path: Path, package_folders: list[str] | None = None) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(
        name, path, loader=loader, submodule_search_locations=package_folders
    )
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    # a module may put something else in its own place
    return sys.modules.get(name, module)


@contextlib.contextmanager
def _neighbours_first(folders: list[str]) -> Iterator[None]:
    """Puts the folders before installed packages (never before the standard library), and afterwards last.

    So `import common` finds the neighbour, as it does in a script, and others import what they did.
    """
    added = [folder for folder in folders if folder not in sys.path]
    installed = (i for i, entry in enumerate(sys.path) if entry.endswith(("site-packages", "dist-packages")))
    place = next(installed, len(sys.path))
    sys.path[place:place] = added
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = [entry for entry in sys.path if entry not in added] + added


@contextlib.contextmanager
def _script_arguments(path: Path) -> Iterator[None]:
    """A file that reads its command line at import finds an empty one, not ours."""
    saved = sys.argv
    sys.argv = [str(path)]
    try:
        yield
    finally:
        sys.argv = saved
