"""Unions of configs whose members may be defined anywhere."""

import dataclasses
from typing import Any, ClassVar

from .plugins import check_one_origin, import_installed, scan


@dataclasses.dataclass(frozen=True)
class OpenUnion:
    """The base of a union whose members may be defined anywhere.

    A direct subclass is a union; a field names it as its type. The frozen dataclasses
    that inherit from it are the members, and the name of a member is its class name.

    **Arguments:** (of a direct subclass)

    - `untagged`: The member that is meant where a config has no `"type"`: it was the
        only member when such configs were written. With `None`, the type is required
        unless there is only one member.
    - `packages`: Where to look for members: each public module in these packages may
        define some. Plug-ins may define some too; see `icl.plugins`.
    """

    _members: ClassVar[list[type]]
    untagged: ClassVar[str | None]
    packages: ClassVar[tuple[str, ...]]

    def __init_subclass__(
        cls,
        *,
        untagged: str | None = None,
        packages: tuple[str, ...] = (),
        **kwargs: Any,
    ):
        super().__init_subclass__(**kwargs)
        if OpenUnion in cls.__bases__:
            cls._members, cls.untagged, cls.packages = [], untagged, packages
        else:
            cls._members.append(cls)

    @classmethod
    def members(cls) -> dict[str, type]:
        """The members by name; first, everything that may define some is imported.

        **Raises:** `ValueError` if two different classes have one name, or a module
        cannot be imported.
        """
        for package in cls.packages:
            scan(package)
        import_installed()
        found: dict[str, type] = {}
        for member in cls._members:
            # Skip a base class that members share; it is no member itself.
            if "__dataclass_fields__" not in vars(member):
                continue
            name = member.__name__
            what = f"kinds of {cls.__name__}"
            check_one_origin(what, name, found.get(name, member), member)
            # The latest one: a cell of a notebook may run again.
            found[name] = member
        return found
