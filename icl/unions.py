"""Unions of configs whose members may be defined anywhere."""

import dataclasses
from typing import Any, ClassVar

from .plugins import Kinds


@dataclasses.dataclass(frozen=True)
class OpenUnion:
    """The base of a union whose members may be defined anywhere.

    A direct subclass is a union; a field names it as its type. The frozen dataclasses
    that inherit from it are the members, and the name of a member is its class name. To
    define a class with the name of another file's member raises `ValueError`.

    **Arguments:** (of a direct subclass)

    - `untagged`: The member that is meant where a config has no `"type"`: it was the
        only member when such configs were written. With `None`, the type is required
        unless there is only one member.
    - `packages`: Where to look for members: each public module in these packages may
        define some. Plug-ins may define some too; see `icl.plugins`.
    """

    _kinds: ClassVar[Kinds]
    untagged: ClassVar[str | None]

    def __init_subclass__(
        cls,
        *,
        untagged: str | None = None,
        packages: tuple[str, ...] = (),
        **kwargs: Any,
    ):
        super().__init_subclass__(**kwargs)
        if OpenUnion in cls.__bases__:
            cls.untagged = untagged
            cls._kinds = Kinds(f"kinds of {cls.__name__}", packages)
        else:
            name = cls.__name__
            if not _is_member(cls._kinds.get(name)):
                cls._kinds.pop(name, None)
            cls._kinds.add(name, cls)

    @classmethod
    def members(cls) -> dict[str, type]:
        """The members by name; first, everything that may define some is imported.

        **Raises:** `ValueError` for a module that cannot be imported.
        """
        kinds = cls._kinds.found()
        return {name: kind for name, kind in kinds.items() if _is_member(kind)}


def _is_member(kind: type | None) -> bool:
    """Whether it is a member, and not a base class that members share."""
    return kind is not None and "__dataclass_fields__" in vars(kind)
