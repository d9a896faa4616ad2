"""Quarter turns and mirror images of drawings, which make more classes."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Shaped


@dataclasses.dataclass(frozen=True)
class Symmetry:
    """Turns a drawing by quarter turns, then mirrors it if asked.

    This permutes the pixels and interpolates nothing.
    """

    turns: int = 0
    """Quarter turns counter-clockwise, 0 to 3."""
    mirrored: bool = False
    """Whether left and right are exchanged after the turn."""

    def __post_init__(self) -> None:
        if self.turns not in range(4):
            raise ValueError(f"turns must be 0, 1, 2 or 3, got {self.turns}")

    def __call__(
        self, images: Shaped[np.ndarray, "*batch size size"]
    ) -> Shaped[np.ndarray, "*batch size size"]:
        """The turned and mirrored images; may be a view of the input."""
        turned = np.rot90(images, self.turns, (-2, -1))
        return turned[..., ::-1] if self.mirrored else turned

    @property
    def suffix(self) -> str:
        """The end of a class's name: empty, or for example `"@turn90,mirrored"`."""
        parts = [f"turn{90 * self.turns}"] if self.turns else []
        parts += ["mirrored"] if self.mirrored else []
        return "@" + ",".join(parts) if parts else ""


SYMMETRIES = {
    "none": (Symmetry(),),
    "turns": tuple(Symmetry(turns) for turns in range(4)),
    "all": tuple(Symmetry(turns, m) for turns in range(4) for m in (False, True)),
}
"""The drawing as it is; its 4 turns; its 4 turns, each followed by its mirror image."""


def check_symmetries(symmetries: Sequence[Symmetry]) -> None:
    """Raises `ValueError` unless all differ and the first is the drawing as it is."""
    if not symmetries or symmetries[0] != Symmetry():
        raise ValueError(
            "symmetries must begin with Symmetry(), the drawing as it is, got "
            f"{tuple(symmetries)}"
        )
    if len(set(symmetries)) < len(symmetries):
        raise ValueError(f"symmetries must be distinct, got {tuple(symmetries)}")


def class_names(names: Sequence[str], symmetries: Sequence[Symmetry]) -> list[str]:
    """The classes of characters: class k is character `k // len(symmetries)`."""
    return [name + symmetry.suffix for name in names for symmetry in symmetries]
