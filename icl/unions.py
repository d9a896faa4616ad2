"""Unions of configs whose members may be defined anywhere."""

import dataclasses
from typing import Any, ClassVar

from .plugins import check_one_origin, import_installed, scan


@dataclasses.dataclass(frozen=True)
class OpenUnion:
    """The base of a union whose members may be defined anywhere.

    A direct subclass is a union, which a field names as its type. The frozen
    dataclasses that inherit from it are the members, known by their class's name.

    **Arguments:** (of a direct subclass)

    - `untagged`: The member that is meant where a config has no `"type"`: the one that
        was alone when such configs were written. `None` has the type asked for.
    - `packages`: Where members are looked for: each public module in them may define
        some. Plug-ins may, too; see `icl.plugins`.
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
        """The members by name; what may define some is imported first.

        **Raises:** `ValueError` for two different classes of one name, and for a module
        that cannot be imported.
        """
        for package in cls.packages:
            scan(package)
        import_installed()
        found: dict[str, type] = {}
        for member in cls._members:
            # Without what members have in common, which is no member itself.
            if "__dataclass_fields__" not in vars(member):
                continue
            name = member.__name__
            what = f"kinds of {cls.__name__}"
            check_one_origin(what, name, found.get(name, member), member)
            # The latest: a notebook's cell was run again.
            found[name] = member
        return found
