"""Paths of submodules, and the names that their values get as sites."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax

from ._modules import WITHIN
from ._site import scope_of
from ._tap import Tap
from .hints import did_you_mean


Names = Mapping[str, str | Mapping[str, str]]


@dataclasses.dataclass(frozen=True)
class SiteName:
    """A site's name and the names of its axes, if they were given."""

    name: str
    axes: tuple[str, ...] | None = None

    @staticmethod
    def of(text: str) -> "SiteName":
        """Reads `mlp.out[seq d_model]`."""
        found = re.fullmatch(r"([^\[\]]+)(?:\[([^\[\]]*)\])?", text)
        if found is None:
            wanted = "the name of a site, as 'mlp.out' or 'mlp.out[seq d_model]'"
            raise ValueError(f"names: {wanted}; got {text!r}")
        name, axes = found.groups()
        return SiteName(name.strip(), None if axes is None else tuple(axes.split()))


@dataclasses.dataclass(frozen=True)
class ModuleSites:
    """The sites of one submodule, by their role: input, output, q, …"""

    roles: tuple[tuple[str, SiteName], ...]
    explicit: bool = True

    def within(self, module: Any) -> "ModuleSites":
        """With the sites within a module, beside its output."""
        output, kind = dict(self.roles).get("output"), kind_of(module)
        if output is None or kind not in WITHIN:
            return self
        axes = output.axes
        if axes is not None:  # Those of a norm's `scale`.
            axes = axes[: len(axes) - len(getattr(module, "shape", ()))]
        scope = f"{scope_of(output.name)}.".lstrip(".")
        more = [(role, SiteName(scope + role, axes)) for role in WITHIN[kind][0]]
        return dataclasses.replace(self, roles=(*self.roles, *more))

    def wanted(self, tap: Tap) -> "ModuleSites":
        """Those that someone asks for."""
        roles = tuple((role, x) for role, x in self.roles if tap.wants(x.name))
        return dataclasses.replace(self, roles=roles)


def submodules(module: Any, path: str = "") -> list[tuple[str, Any]]:
    """All callable modules of a tree with their paths, the tree's root first."""
    found: list[tuple[str, Any]] = [(path, module)] if callable(module) else []
    for place, child in children_of(module)[0]:
        if isinstance(child, eqx.Module):
            here = jax.tree_util.keystr(place, simple=True, separator=".")
            found += submodules(child, f"{path}.{here}" if path else here)
    return found


def is_part(path: str, modules: Mapping[str, eqx.Module]) -> bool:
    """Whether a submodule belongs to one that has sites within."""
    return any(
        path.startswith(other + ".") and kind_of(module) in WITHIN
        for other, module in modules.items()
    )


def children_of(module: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The modules and other leaves within a module, with their places."""
    inside = lambda x: x is not module and isinstance(x, eqx.Module)
    return jax.tree_util.tree_flatten_with_path(module, is_leaf=inside)


def chosen_sites(
    names: Names, modules: Mapping[str, eqx.Module]
) -> dict[str, dict[str, SiteName]]:
    """By path and role, the names that globs give to the sites of submodules."""
    found: dict[str, dict[str, SiteName]] = {}
    for pattern, given in names.items():
        roles = {"output": given} if isinstance(given, str) else dict(given)
        if unknown := roles.keys() - {"input", "output"}:
            wanted = "wanted 'input' or 'output'"
            raise ValueError(f"names: {pattern!r} has {min(unknown)!r}; {wanted}")
        regex = re.compile(re.escape(pattern).replace(r"\*", r"([^.]*)"))
        matches = {path: m for path in modules if (m := regex.fullmatch(path))}
        if not matches:
            known = [path for path in modules if path]
            hint = did_you_mean(pattern, known, cutoff=0.5)
            hint = hint or f"; submodules: {', '.join(known[:20])}"
            raise ValueError(f"names: no submodule {pattern!r}{hint}")
        for path, match in matches.items():
            for role, text in roles.items():
                filled = _filled(text, match.groups(), pattern)
                found.setdefault(path, {})[role] = SiteName.of(filled)
    return found


def _filled(text: str, parts: Sequence[str], pattern: str) -> str:
    """A site's name with what the stars of a path stand for."""
    if text.count("*") != len(parts):
        got = f"{pattern!r} has {len(parts)} and {text!r} has {text.count('*')}"
        raise ValueError(f"names: a path and its site need as many stars; {got}")
    left = iter(parts)
    return re.sub(r"\*", lambda _: next(left), text)


def check_different(sites: Mapping[str, ModuleSites]) -> None:
    """Raises `ValueError` if two submodules have a site of one name."""
    paths: dict[str, str] = {}
    for path, of_module in sites.items():
        for _, site in of_module.roles:
            if site.name in paths:
                both = f"{paths[site.name]!r} and {path!r}"
                raise ValueError(f"names: {both} have the same site {site.name!r}")
            paths[site.name] = path


def kind_of(module: Any) -> type:
    """The class of Equinox that a module is of, if it has sites within."""
    return next((known for known in WITHIN if isinstance(module, known)), type(module))
