"""Classes drawn from a seed."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float32, Float64, Int32

from ..checks import check_index, check_not_negative, check_scale, positive
from ..memory import check_memory


@dataclasses.dataclass(frozen=True)
class LowRankClasses:
    r"""Rectified classes that differ along few directions and share a mean.

    The features of exemplar $j$ of class $k$ are

    $$
    f_{kj} = s\, \mathrm{relu}(m + A (z_k + \tau\, \zeta_{kj}) + \sigma\, \epsilon_{kj})
    $$

    elementwise with $m_i = |\mathcal N(0, 1)|$ and $A_{ir} \sim \mathcal N(0, 1/R)$
    shared by all classes, $z_k, \zeta_{kj} \sim \mathcal N(0, I_R)$ and
    $\epsilon_{kj} \sim \mathcal N(0, I)$, where $R$ is `rank`, $\sigma$ `spread`,
    $\tau$ `class_spread` and $s$ `scale`. A model can average out noise of the second
    kind ($\epsilon$), but not of the first ($\zeta$): the nearer two classes are, the
    harder it is to tell their exemplars apart.

    Like the ResNet features of images in Singh et al. (2024), "What needs to go right
    for an induction head?", they are nonnegative, and two classes have a mean cosine of
    about 0.65 ($\sigma = 0$; 0.61 at 0.5, where two exemplars of a class have 0.91).
    Independent Gaussian classes are unlike those features: their mean cosine is 0.

    A larger data set extends a smaller one: class $k$ does not depend on the number of
    classes, nor its exemplar $j$ on the number of exemplars. `dim` and `rank` change
    everything. The numbers come from NumPy's generators, so they depend on neither the
    version of JAX nor its settings.
    """

    num_classes: int = 150
    """How many classes."""
    num_exemplars: int = 20
    """How many exemplars of each class."""
    dim: int = 512
    """How many features."""
    rank: int = 32
    """How many directions the classes differ along."""
    spread: float = 0.5
    """Standard deviation of an exemplar's noise, before the rectification."""
    seed: int = 0
    """At least 0; another seed is another data set."""
    class_spread: float | None = None
    """Standard deviation of an exemplar's noise along the directions in which classes
    differ. Along these, the classes themselves have 1. `None` for no such noise."""
    scale: float = 1.0
    """The factor on the features, above 0. With a smaller factor, an exemplar's
    embedding is smaller beside the heads' outputs, so less is learned of its class
    without the heads."""

    def __post_init__(self) -> None:
        for name in ("num_classes", "num_exemplars", "dim", "rank"):
            positive(name, getattr(self, name))
        check_scale("scale", self.scale)
        check_not_negative("spread", self.spread)
        check_not_negative("class_spread", self.class_spread or 0.0)
        check_index("seed", self.seed)

    def load(self) -> Float32[np.ndarray, "class exemplar dim"]:
        """Draws the features; all are at least 0.

        **Raises:** `ValueError` if they are larger than memory.
        """
        shape = (self.num_classes, self.num_exemplars, self.dim)
        check_memory(f"data: {self}", 4 * math.prod(shape))
        check_memory(f"data: {self}", 8 * self.dim * self.rank)
        shared, classes, within = np.random.SeedSequence(self.seed).spawn(3)
        rng = np.random.default_rng(shared)
        mean = np.abs(rng.standard_normal(self.dim))
        mixing = rng.standard_normal((self.dim, self.rank)) / math.sqrt(self.rank)

        # One product per class: a product for all classes at once may round
        # differently when there are more classes.
        def centre(rng: np.random.Generator) -> Float64[np.ndarray, " dim"]:
            return mean + mixing @ rng.standard_normal(self.rank)

        features = _scatter(centre, shape, self.spread, classes)
        if self.class_spread:
            along = self.class_spread * mixing
            for exemplars, child in zip(features, within.spawn(shape[0]), strict=True):
                noise = np.random.default_rng(child).standard_normal
                for exemplar in exemplars:
                    exemplar += along @ noise(self.rank)
        np.maximum(features, 0, out=features)
        features *= np.float32(self.scale)
        return features


@dataclasses.dataclass(frozen=True)
class GaussianClasses:
    r"""Independent Gaussian classes, with independent Gaussian noise around them.

    The features of exemplar $j$ of class $k$ are $\mu_k + \sigma\, \epsilon_{kj}$ with
    $\mu_k, \epsilon_{kj} \sim \mathcal N(0, I)$ and $\sigma$ the `spread`. In many
    dimensions, two classes are nearly orthogonal: their cosine has mean 0 and standard
    deviation $1/\sqrt{\mathrm{dim}}$.

    A larger data set extends a smaller one, as in `LowRankClasses`.
    """

    num_classes: int = 150
    """How many classes."""
    num_exemplars: int = 20
    """How many exemplars of each class."""
    dim: int = 512
    """How many features."""
    spread: float = 0.5
    """Standard deviation of an exemplar around the mean of its class."""
    seed: int = 0
    """At least 0; another seed is another data set."""

    def __post_init__(self) -> None:
        for name in ("num_classes", "num_exemplars", "dim"):
            positive(name, getattr(self, name))
        check_not_negative("spread", self.spread)
        check_index("seed", self.seed)

    def load(self) -> Float32[np.ndarray, "class exemplar dim"]:
        """Draws the features.

        **Raises:** `ValueError` if they are larger than memory.
        """
        shape = (self.num_classes, self.num_exemplars, self.dim)
        check_memory(f"data: {self}", 4 * math.prod(shape))

        def centre(rng: np.random.Generator) -> Float64[np.ndarray, " dim"]:
            return rng.standard_normal(self.dim)

        classes = np.random.SeedSequence(self.seed)
        return _scatter(centre, shape, self.spread, classes)


@dataclasses.dataclass(frozen=True)
class OneHotClasses:
    """Classes with one exemplar each; the exemplar is the class's number.

    They have no features: a model looks up the numbers in a table of embeddings, which
    is the same as one-hot inputs.
    """

    num_classes: int
    """How many classes."""

    def __post_init__(self) -> None:
        positive("num_classes", self.num_classes)

    def load(self) -> Int32[np.ndarray, "class exemplar"]:
        """The numbers 0, 1, … of the classes, with an axis for the one exemplar.

        **Raises:** `ValueError` if they are larger than memory.
        """
        check_memory(f"data: {self}", 4 * self.num_classes)
        return np.arange(self.num_classes, dtype=np.int32)[:, None]


def _scatter(
    centre: Callable[[np.random.Generator], Float64[np.ndarray, " dim"]],
    shape: tuple[int, int, int],
    spread: float,
    seed: np.random.SeedSequence,
) -> Float32[np.ndarray, "class exemplar dim"]:
    """Classes at `centre(generator of the class)`, with exemplars spread around them.

    Each class has its own generator, which draws its exemplars in order. So neither
    depends on how many more there are.
    """
    features = np.empty(shape, np.float32)
    for exemplars, child in zip(features, seed.spawn(shape[0]), strict=True):
        rng = np.random.default_rng(child)
        middle = centre(rng).astype(np.float32)
        rng.standard_normal(dtype=np.float32, out=exemplars)
        exemplars *= np.float32(spread)
        exemplars += middle
    return features
