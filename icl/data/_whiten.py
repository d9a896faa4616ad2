"""Principal components of images."""

import numpy as np
from jaxtyping import Float32

from ..checks import positive


def pca_whiten(
    images: Float32[np.ndarray, "class exemplar height width"], dims: int
) -> Float32[np.ndarray, "class exemplar dims"]:
    """Projects images on their leading principal components, with unit variance.

    The pixels are centred and projected on the eigenvectors of their covariance with
    the largest eigenvalues. Each projection is divided by its standard deviation. Mean
    and covariance are over all given images: all classes and exemplars, even those that
    are held out later. The divisor is n, so the mean square of each feature is 1. The
    sign of a component makes its largest entry positive.

    **Arguments:**

    - `dims`: How many components; at most the rank of the centred images.
    """
    positive("dims", dims)
    shape = images.shape
    pixels = images.reshape(shape[0] * shape[1], -1).astype(np.float64)
    pixels -= pixels.mean(0)
    # `eigh` sorts ascending; reverse it.
    variances, vectors = np.linalg.eigh(pixels.T @ pixels / len(pixels))
    variances, components = variances[::-1], vectors.T[::-1]
    threshold = variances[0] * max(pixels.shape) * np.finfo(np.float64).eps
    rank = int((variances > threshold).sum())
    if dims > rank:
        raise ValueError(
            f"dims must be at most the rank of the images, {rank}, got {dims}"
        )
    components = components[:dims]
    largest = np.abs(components).argmax(1)
    signs = np.sign(components[np.arange(dims), largest])
    features = pixels @ components.T * (signs / np.sqrt(variances[:dims]))
    return features.astype(np.float32).reshape(shape[0], shape[1], dims)
