"""The API reference: a page for each package, with every public name once.

griffe reads the code without importing it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

from .page import Made


PACKAGES = ("opto", "icl", "sweeps")
HEAD = """# Reference

Every public name of the three packages, from its docstring, with its source. A name is
where it is defined; `icl`, `opto` and `sweeps` also have short names for what most
programs use.

| package | |
| --- | --- |
"""


def made(root: Path) -> Iterator[Made]:
    """The overview, then a page for each package."""
    loader = griffe.GriffeLoader(search_paths=[root])
    tops = [loader.load(name) for name in PACKAGES]
    loader.resolve_aliases()
    packages = [each for top in tops for each in _packages(top)]
    rows = [
        f"| [{each.path}]({each.path}.md) | {_first_line(each)} |" for each in packages
    ]
    yield Made("reference/index.md", HEAD + "\n".join(rows) + "\n")
    for package in packages:
        source = Path(package.filepath).relative_to(root).as_posix()
        yield Made(f"reference/{package.path}.md", "\n".join(_page(package)), source)


def _packages(package: Any) -> Iterator[Any]:
    """A package and the public packages in it, at any depth."""
    yield package
    for _, member in sorted(_modules(package)):
        if member.is_init_module:
            yield from _packages(member)


def _modules(package: Any) -> list[tuple[str, Any]]:
    members = package.members.items()
    return [
        (name, member)
        for name, member in members
        if not name.startswith("_") and not member.is_alias and member.is_module
    ]


def _page(package: Any) -> Iterator[str]:
    yield f"# {package.path}\n"
    yield f"{package.docstring.value}\n" if package.docstring else ""
    here, short = [], []
    for name, target in _exported(package):
        (here if _owner(target) == package.path else short).append((name, target))
    if short:
        yield "Short names:\n"
        for name, target in short:
            yield f"- [`{package.path}.{name}`][{target}]"
        yield ""
    for name, _ in here:
        yield f"::: {package.path}.{name}\n"
    known = {target for _, target in here}
    for _, module in sorted(_modules(package)):
        if module.is_init_module:
            continue
        if _has_content(module):
            yield f"::: {module.path}\n"
        else:
            yield from _names_of(module, known)


def _names_of(module: Any, known: set[str]) -> Iterator[str]:
    """A module that only gathers names: those that no other place documents."""
    names = _exported(module)
    if names:
        yield f"## {module.path}\n\n{module.docstring.value}\n"
    for name, target in names:
        if target in known or not _owner(target):
            yield f"- [`{module.path}.{name}`][{target}]"
    yield ""
    for name, target in names:
        if target not in known and _owner(target):
            yield f"::: {module.path}.{name}\n    options: {{heading_level: 3}}\n"


def _exported(package: Any) -> list[tuple[str, str]]:
    """The names that a package's `__init__` imports for others, and what they are.

    Modules are left out: they are documented as what they are.
    """
    found = []
    for name, member in package.members.items():
        if name.startswith("_") or not member.is_alias:
            continue
        target = member.target_path
        try:
            final = member.final_target
        except griffe.AliasResolutionError:
            continue
        if not target.startswith(PACKAGES) or final.is_module or not final.docstring:
            continue
        found.append((name, final.path))
    return sorted(found, key=lambda pair: pair[0].lower())


def _owner(path: str) -> str:
    """The package that documents an object: the public one around its private file.

    If its file is public, the file's own section documents it, so no package does.
    """
    parts = path.split(".")[:-1]
    if not any(part.startswith("_") for part in parts):
        return ""
    public = []
    for part in parts:
        if part.startswith("_"):
            break
        public.append(part)
    return ".".join(public)


def _has_content(module: Any) -> bool:
    """Whether a module has anything to show."""
    return any(
        not name.startswith("_") and not member.is_alias and member.docstring
        for name, member in module.members.items()
    )


def _first_line(module: Any) -> str:
    return module.docstring.value.split("\n\n")[0].replace("\n", " ")
