"""Code that is found when it is needed: kinds by their folder, plug-ins by their name.

A new file in a scanned package is found because it is there. Another package's code is
found if the package names a module in the entry-point group `icl.plugins`. Or the user
names it: `--import MODULE` on the command line, `import_plugin` in Python.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import os
import pkgutil
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any


_GROUP = "icl.plugins"
_OPTION = "--import"

# The packages that other code only adds to.
_OURS = ("icl", "opto", "sweeps")

_imported: list[str] = []


class Kinds(dict[str, Any]):
    """Classes or functions by name: ours, and those of plug-ins.

    **Arguments:**

    - `what`: What they are, for messages.
    - `packages`: Each public module in these packages may add some.
    """

    def __init__(self, what: str, packages: tuple[str, ...] = ()):
        super().__init__()
        self.what, self.packages = what, packages

    def add(self, name: str, new: Any) -> None:
        """Adds one; it replaces an earlier one from the same place of the same file.

        A file may run more than once: as a script and as a module, or as a cell of a
        notebook.

        **Raises:** `ValueError` if another one has the name.
        """
        if not _is_ours(new):
            self._scan()  # Otherwise one of ours would be refused later.
        there = self.get(name, new)
        if origin(there) != origin(new):
            raise ValueError(
                f"{name!r} is the name of two {self.what}, in {origin(there)[0]} and "
                f"in {origin(new)[0]}; rename one"
            )
        self[name] = new

    def found(self) -> "Kinds":
        """All of them; first, everything that may add some is imported.

        **Raises:** `ValueError` for a module that cannot be imported.
        """
        self._scan()
        import_installed()
        return self

    def _scan(self) -> None:
        for package in self.packages:
            scan(package)


def import_plugin(name: str) -> ModuleType:
    """Imports a module by its name, or by the path of its file, which ends in `.py`.

    From then on, what the module defines is known, and `imported` lists it. A file that
    was already imported, under any name, runs again only if it was imported by its path
    and has changed since.

    **Raises:** `ValueError`, in one line, if the module does not exist or fails, for
    example because a kind of another module has the name of one of its own.
    """
    # Our edits have no `Kinds` to find them.
    scan("icl.edits")
    import_installed()
    if name.endswith(".py"):
        name = os.path.abspath(name)
        module = _import_file(Path(name))
    elif all(map(str.isidentifier, name.split("."))):
        module = _import(name)
    else:
        wanted = "the name of a module or the path of a file that ends in .py"
        raise ValueError(f"{_OPTION} must be {wanted}, got {name!r}")
    if name not in _imported:
        _imported.append(name)
    return module


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Imports a module that one of the project's extras installs.

    **Arguments:**

    - `extra`: The extra, as in `make EXTRA=resnet`.
    - `purpose`: What needs the module; the error begins with it.

    **Raises:** `ValueError`, in one line, if the module does not exist or is broken.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError, OSError) as error:
        how = f"make EXTRA={extra}, or pip install -e '.[{extra}]'"
        if isinstance(error, ImportError) and error.name == module.partition(".")[0]:
            reason = f"{error.name}, which is not installed"
        else:
            reason = f"{module}, which does not import ({' '.join(str(error).split())})"
        raise ValueError(f"{purpose} needs {reason}: {how}") from error


def imported() -> tuple[str, ...]:
    """What this process was told to import: names of modules, absolute paths of files.

    Other processes that read the same configs must import it first.
    """
    return tuple(_imported)


def import_from(arguments: Sequence[str]) -> list[str]:
    """Imports what a command line names with `--import`; returns the other arguments.

    **Raises:** `ValueError` as in `import_plugin`, and for an option without a name.
    """
    rest: list[str] = []
    left = iter(arguments)
    for argument in left:
        option, equals, name = argument.partition("=")
        if option != _OPTION:
            rest.append(argument)
            continue
        name = name if equals else next(left, "")
        if not name or name.startswith("-"):
            wanted = "the name of a module or the path of a .py file"
            raise ValueError(f"{_OPTION} needs {wanted}, got {name!r}")
        import_plugin(name)
    return rest


@functools.cache
def import_installed() -> None:
    """Imports the modules that installed packages name in the group `icl.plugins`.

    **Raises:** `ValueError` for a module that cannot be imported.
    """
    for point in entry_points(group=_GROUP):
        # Importing the module is enough: what it defines registers itself.
        _import(point.module)


@functools.cache
def scan(package: str) -> None:
    """Imports the public modules of a package and of its public sub-packages.

    **Raises:** `ValueError` for a module that cannot be imported.
    """
    folders = _import(package).__path__
    for found in pkgutil.iter_modules(folders):
        name = f"{package}.{found.name}"
        if found.name.startswith("_"):
            continue
        if found.ispkg:
            scan(name)
        else:
            _import(name)


@contextlib.contextmanager
def made_with(names: Iterable[str]) -> Iterator[None]:
    """For reading something made with plug-ins: an error names the missing plug-ins.

    These are the ones that are not imported.
    """
    try:
        yield
    except ValueError as error:
        missing = [name for name in names if not _is_imported(name)]
        if not missing:
            raise
        options = " ".join(f"{_OPTION} {shlex.quote(name)}" for name in missing)
        raise ValueError(f"{error} (it was made with {options})") from None


def origin(thing: Any) -> tuple[str, str]:
    """The file that defines a class or function, and its place in that file."""
    module = sys.modules.get(thing.__module__)
    return getattr(module, "__file__", None) or thing.__module__, thing.__qualname__


def _is_ours(thing: Any) -> bool:
    return getattr(thing, "__module__", "").partition(".")[0] in _OURS


def _is_imported(name: str) -> bool:
    return (_module_name(Path(name)) if name.endswith(".py") else name) in sys.modules


def _import(name: str) -> ModuleType:
    with _told(name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name == name and Path(f"{name}.py").is_file():
                raise ValueError(f"no such module; did you mean {name}.py?") from None
            raise


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    with _told(str(path)):
        text = path.read_bytes()
    name = _module_name(path)
    there = sys.modules.get(name)
    # A module that was imported by its path keeps the text that ran.
    if there is not None and getattr(there.__spec__, "loader_state", None) in (
        None,
        text,
    ):
        return there
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # The path ends in .py.
    spec.loader_state = text
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks up its module while the class is made.
    sys.modules[name] = module
    try:
        with _told(str(path)):
            # Not the loader: it would run an older text of the same second and size.
            exec(compile(text, path, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        if there is not None:
            sys.modules[name] = there
        raise
    return module


def _module_name(path: Path) -> str:
    """The file's own name, unless another module has it.

    Then `import` finds the module that is there, and makes no second copy.
    """
    if path.stem.isidentifier():
        spec = importlib.util.find_spec(path.stem)
        if spec is None or os.path.realpath(spec.origin or "") == os.path.realpath(
            path
        ):
            return path.stem
    return f"{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Turns errors of an import into one line that names the module."""
    try:
        yield
    except (Exception, SystemExit) as error:
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        reason = " ".join(f"{kind}{error}".split())
        raise ValueError(f"{name} cannot be imported: {reason}") from error
