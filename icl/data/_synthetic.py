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
class TransformedClasses:
    r"""Classes of transformed drawings, cut as in the public code of Singh et al.

    A character $c$ has 20 drawings $d$, and each drawing is shown under eight
    transforms $t$, in place of a photograph's rotations and mirror images. The features
    of an image are

    $$
    f_{dt} = s\, \mathrm{relu}(\mu m + A\, [u_d;\, Q_t v_d]), \qquad
    [u_d; v_d] = z_c + \tau\, \zeta_d
    $$

    with $m_i = |\mathcal N(0, 1)|$, $A_{ir} \sim \mathcal N(0, 1/R)$ and random
    orthogonal $Q_t$ shared by all images, and $z_c, \zeta_d \sim \mathcal N(0, I_R)$.
    $R$ is `rank`, $u$ has `invariant` of its numbers, $\tau$ is `spread`, $s$
    `scale` and $\mu$ `mean`.

    Image $n$ is drawing $n // 8$ under transform $n \bmod 8$, and class $k$ has the
    images $20k, 20k + 1, \ldots$ So a class is two or three drawings of a character
    under all eight transforms, and eight classes share a character. The feature files
    of the public code are cut like this, whose code to extract them reads image-major
    data as if it were transform-major.

    A larger data set extends a smaller one, as in `LowRankClasses`.
    """

    num_classes: int = 12_800
    """How many classes."""
    num_exemplars: int = 20
    """How many exemplars of each class, at most 20."""
    dim: int = 512
    """How many features."""
    rank: int = 32
    """How many directions the images differ along."""
    invariant: int = 13
    """How many of these the transforms leave as they are, at most `rank`."""
    spread: float = 0.9
    """Standard deviation of the drawings of a character, along these directions. Along
    each, the characters themselves have 1."""
    seed: int = 0
    """At least 0; another seed is another data set."""
    scale: float = 0.8
    """The factor on the features, above 0; see `LowRankClasses`."""
    mean: float = 3.0
    """The factor on the mean that all images share, at least 0."""

    def __post_init__(self) -> None:
        for name in ("num_classes", "num_exemplars", "dim", "rank"):
            positive(name, getattr(self, name))
        check_not_negative("mean", self.mean)
        for name, most in (("num_exemplars", _IMAGES), ("invariant", self.rank)):
            check_not_negative(name, getattr(self, name))
            if getattr(self, name) > most:
                raise ValueError(
                    f"{name} must be at most {most}, got {getattr(self, name)}"
                )
        check_not_negative("spread", self.spread)
        check_scale("scale", self.scale)
        check_index("seed", self.seed)

    def load(self) -> Float32[np.ndarray, "class exemplar dim"]:
        """Draws the features; all are at least 0.

        **Raises:** `ValueError` if they are larger than memory.
        """
        shape = (self.num_classes, self.num_exemplars, self.dim)
        check_memory(f"data: {self}", 4 * math.prod(shape))
        check_memory(f"data: {self}", 8 * self.dim * self.rank)
        shared, characters = np.random.SeedSequence(self.seed).spawn(2)
        rng = np.random.default_rng(shared)
        mean = self.mean * np.abs(rng.standard_normal(self.dim))
        mixing = rng.standard_normal((self.dim, self.rank)) / math.sqrt(self.rank)
        turned = self.rank - self.invariant
        found = np.linalg.qr(rng.standard_normal((_TRANSFORMS, turned, turned)))
        signs = np.sign(np.diagonal(found.R, axis1=1, axis2=2))
        transforms = found.Q * signs[:, None, :]  # Uniform over rotations and mirrors.
        features = np.empty(shape, np.float32)
        per_character = _DRAWINGS * _TRANSFORMS // _IMAGES
        count = -(-self.num_classes // per_character)
        for k, child in enumerate(characters.spawn(count)):
            rng = np.random.default_rng(child)
            latent = rng.standard_normal(self.rank)
            latents = latent + self.spread * rng.standard_normal((_DRAWINGS, self.rank))
            kept, others = np.split(latents, [self.invariant], axis=1)
            others = np.einsum("tij,dj->dti", transforms, others)
            kept = np.broadcast_to(kept[:, None], (*others.shape[:2], self.invariant))
            images = mean + np.concatenate([kept, others], 2) @ mixing.T
            images = images.reshape(per_character, _IMAGES, self.dim)
            classes = features[k * per_character :][:per_character]
            classes[:] = images[: len(classes), : self.num_exemplars]
        np.maximum(features, 0, out=features)
        features *= np.float32(self.scale)
        return features


_DRAWINGS, _TRANSFORMS, _IMAGES = 20, 8, 20
"""Drawings of a character, transforms of a drawing, and images of a class."""


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
