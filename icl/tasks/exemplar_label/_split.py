"""Disjoint parts of classes, exemplars or label pairs."""

import dataclasses
from typing import Literal

import numpy as np

from ...checks import check_index, check_one_of


SplitPart = Literal["train", "val", "test"]


@dataclasses.dataclass(frozen=True)
class Split:
    """The numbers of things for training, validation and testing, of `n`.

    The parts are disjoint and uniformly random; left-over things are in no part. With
    the same seed, a larger `train` need not contain a smaller one.
    """

    train: int
    """The number for training, at least 0."""
    val: int = 0
    """The number for validation, at least 0."""
    test: int = 0
    """The number for testing, at least 0."""
    seed: int | None = 0
    """The seed of the random choice, at least 0. `None` keeps the order of the data:
    the first `train` things are for training, the next `val` for validation, the next
    `test` for testing."""
    order: tuple[int, ...] | None = None
    """The things one by one, if another program chose them: the first `train` of this
    list are for training, and so on. Needs `seed=None`."""

    def __post_init__(self):
        for name in ("train", "val", "test"):
            check_index(name, getattr(self, name))
        if self.seed is not None:
            check_index("seed", self.seed)
        if self.order is None:
            return
        total = self.train + self.val + self.test
        if self.seed is not None:
            raise ValueError(f"order needs seed=None, got seed={self.seed}")
        if len(self.order) != total or len({*self.order}) != total:
            got = f"got {self.order}"
            raise ValueError(f"order must list {total} different things, {got}")
        if min(self.order, default=0) < 0:
            raise ValueError(f"order must have numbers of at least 0, got {self.order}")

    def part(self, name: SplitPart, n: int, *, attempt: int = 0) -> np.ndarray:
        """The members of a part.

        **Arguments:**

        - `name`: `"train"`, `"val"` or `"test"`.
        - `n`: The number of things to divide.
        - `attempt`: Another number gives another independent split with the same seed.

        **Returns:**

        int64 [member], increasing, each in [0, n).

        **Raises:**

        `ValueError` if the parts together have more than `n` things, or this part is
        empty.
        """
        check_one_of("part", name, SplitPart)
        total = self.train + self.val + self.test
        if total > n:
            raise ValueError(f"{self} divides {total} things, but there are only {n}")
        if getattr(self, name) == 0:
            raise ValueError(f"the {name!r} part of {self} is empty")
        if self.order is not None:
            order = np.asarray(self.order, np.int64)
            if order.max(initial=-1) >= n:
                raise ValueError(
                    f"order names thing {order.max()}, but there are only {n} things"
                )
        elif self.seed is None:
            order = np.arange(total)
        else:
            rng = np.random.default_rng([self.seed, attempt])
            order = rng.choice(n, size=total, replace=False)
        start = {"train": 0, "val": self.train, "test": self.train + self.val}[name]
        return np.sort(order[start : start + getattr(self, name)])
