"""Classes of near neighbours among the rows of a matrix."""

import dataclasses
import math
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32, Int
from tqdm import tqdm

from ..checks import check_index, check_one_of, finite, positive
from ..plugins import import_extra


ClusterDistance = Literal["l2", "cosine"]
_ITERATIONS = 25  # of k-means, at most


@dataclasses.dataclass(frozen=True)
class NeighbourClusters:
    """Classes of near neighbours, all with the same number of rows.

    K-means makes one centroid per class. Then all pairs of a row and a centroid are
    visited, from the nearest to the farthest. A row joins the centroid's class if the
    row is in no class yet and the class is not full. So every class has its number of
    rows, no row is in two classes, and left-over rows are in none.

    The first centroids are rows drawn by greedy k-means++ (Arthur & Vassilvitskii,
    2007), which finds clusters that are far apart one by one. Then faiss (Douze et al.,
    2024) alternates assignments and means until nothing changes, at most 25 times.

    A row that is far from all others gets its own centroid. Its class then consists of
    rows that are not near neighbours. With fewer `classes`, fewer classes are like
    this.

    The seed decides the order of the classes and of the exemplars of each class, so the
    first ones are not special. Needs faiss: `make EXTRA=clusters`. Needs memory for two
    copies of the matrix and about 10 bytes for each pair of a row and a class. The same
    settings on the same machine give the same classes.
    """

    exemplars: int
    """The number of rows in each class."""
    classes: int | None = None
    """How many classes. `None` is half as many as the rows could fill: 1600 classes of
    10 for the 32,000 tokens of LLaMA, as in Singh et al. (2023), "The transient nature
    of emergent in-context learning"."""
    metric: ClusterDistance = "l2"
    """The distance: Euclidean, or by the cosine of the angle."""
    seed: int = 0
    """At least 0; decides the first centroids and the order."""

    def __post_init__(self) -> None:
        positive("exemplars", self.exemplars)
        if self.classes is not None:
            positive("classes", self.classes)
        check_one_of("metric", self.metric, ClusterDistance)
        check_index("seed", self.seed)

    def find(
        self, matrix: Float32[np.ndarray, "row dim"]
    ) -> Int[np.ndarray, "class exemplar"]:
        """The rows of each class.

        **Raises:**

        `ValueError` if faiss is not installed, there are too few rows, a value is not
        finite, or a row is zero (it has no angle).
        """
        faiss = import_extra("faiss", "clusters", "NeighbourClusters")
        classes = self._count(len(matrix))
        points = _points(matrix, self.metric)
        first, order = np.random.SeedSequence(self.seed).spawn(2)
        seeds = _first_centroids(points, classes, np.random.default_rng(first))
        centroids = _k_means(faiss, points, points[seeds], self.metric)
        rows = _fill(_squares(points, centroids), self.exemplars)
        rng = np.random.default_rng(order)
        return rng.permuted(rng.permutation(rows), axis=1)

    def _count(self, rows: int) -> int:
        most = rows // self.exemplars
        classes = max(most // 2, 1) if self.classes is None else self.classes
        if classes > most:
            raise ValueError(
                f"exemplars times classes must be at most the number of rows, {rows}, "
                f"got {self.exemplars} times {classes}"
            )
        return classes


def _points(
    matrix: Float32[np.ndarray, "row dim"], metric: ClusterDistance
) -> Float32[np.ndarray, "row dim"]:
    """A copy whose Euclidean distances order the pairs of rows as the metric does."""
    finite("matrix", matrix)
    # Scale the largest entry to 1, so that no square overflows.
    points = matrix / (np.abs(matrix).max() or np.float32(1))
    if metric == "l2":
        # Centre, because squared distances are less exact far from 0.
        points -= points.mean(0, dtype=np.float64).astype(np.float32)
        return points
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    if not lengths.all():
        raise ValueError(
            "matrix must have no row of zeros, because such a row has no angle, got "
            f"row {lengths[:, 0].argmin()}"
        )
    points /= lengths
    return points


def _squares(
    points: Float32[np.ndarray, "row dim"], others: Float32[np.ndarray, "other dim"]
) -> Float32[np.ndarray, "row other"]:
    """The squared distances; needs no more memory than the result."""
    squares = points @ others.T
    squares *= -2
    squares += np.einsum("od,od->o", others, others)
    squares += np.einsum("rd,rd->r", points, points)[:, None]
    return np.maximum(squares, 0, out=squares)


def _first_centroids(
    points: Float32[np.ndarray, "row dim"], count: int, rng: np.random.Generator
) -> Int[np.ndarray, " centroid"]:
    """Rows drawn by greedy k-means++.

    A few rows are drawn with probabilities proportional to the squared distance to the
    nearest row chosen before. The row that leaves the smallest sum of these squared
    distances is chosen.
    """
    trials = 2 + int(math.log(count))
    chosen = np.empty(count, np.int64)
    nearest = np.ones(len(points), np.float32)
    bar = tqdm(range(count), desc="first centroids", unit="class", disable=None)
    for number in bar:
        sums = nearest.cumsum(dtype=np.float64)
        drawn = np.searchsorted(sums, rng.random(trials) * sums[-1], side="right")
        drawn = np.minimum(drawn, len(points) - 1)
        squares = _squares(points, points[drawn])
        if number:
            squares = np.minimum(squares, nearest[:, None])
        best = squares.sum(0, dtype=np.float64).argmin()
        chosen[number] = drawn[best]
        nearest = squares[:, best]
        nearest[drawn[best]] = 0
    return chosen


def _k_means(
    faiss: Any,
    points: Float32[np.ndarray, "row dim"],
    centroids: Float32[np.ndarray, "centroid dim"],
    metric: ClusterDistance,
) -> Float32[np.ndarray, "centroid dim"]:
    """The centroids after Lloyd's iterations; length 1 for the cosine metric."""
    bar = tqdm(range(_ITERATIONS), desc="k-means", unit="step", disable=None)
    for _ in bar:
        step = faiss.Kmeans(
            points.shape[1],
            len(centroids),
            niter=1,
            spherical=metric == "cosine",
            # Use all rows, and do not warn if a centroid has many or few.
            max_points_per_centroid=len(points),
            min_points_per_centroid=1,
        )
        step.train(points, init_centroids=centroids)
        if np.array_equal(step.centroids, centroids):
            break
        centroids = step.centroids.copy()
    return centroids


def _fill(
    squares: Float32[np.ndarray, "row class"], exemplars: int
) -> Int[np.ndarray, "class exemplar"]:
    """The rows of each class; the nearest pairs of a row and a class go first.

    This is done in rounds, with the same result: each free row asks the nearest class
    that would take it, and each class keeps the nearest rows that have asked. The rows
    that it keeps only ever get nearer, so a class that refuses a row never takes it.
    """
    rows, classes = squares.shape
    held = np.full(rows, -1)  # the class that keeps the row
    limit = np.full(classes, np.inf, np.float32)  # the farthest row of a full class
    free = np.arange(rows)
    while len(free):
        asked = np.where(squares[free] < limit, squares[free], np.inf)
        nearest = asked.argmin(1)
        wanted = np.isfinite(asked[np.arange(len(free)), nearest])
        held[free[wanted]] = nearest[wanted]
        kept = np.flatnonzero(held >= 0)
        distance = squares[kept, held[kept]]
        kept = kept[np.lexsort((kept, distance, held[kept]))]  # by class, then distance
        starts = np.searchsorted(held[kept], np.arange(classes))
        rank = np.arange(len(kept)) - starts[held[kept]]
        last = kept[rank == exemplars - 1]
        limit[held[last]] = squares[last, held[last]]
        free = kept[rank >= exemplars]
        held[free] = -1
    kept = np.flatnonzero(held >= 0)
    return kept[np.argsort(held[kept], kind="stable")].reshape(classes, exemplars)
