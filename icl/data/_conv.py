"""A small convolutional network that turns drawings into features."""

import dataclasses
import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Float32, Int, PRNGKeyArray, PyTree
from tqdm import tqdm

from ..checks import check_index, positive


_CHANNELS = (32, 64, 128)
_BATCH_SIZE = 128
_LEARNING_RATE = 1e-3
_TURNS = 4  # a character and its turns by 90, 180 and 270 degrees
_STRETCH = 0.1  # standard deviation of each entry of the random linear map
_SHIFT = 1 / 14  # the largest random shift, as a fraction of the side


@dataclasses.dataclass(frozen=True)
class ConvEncoder:
    """Features of characters from a network that was trained on other characters.

    The classes are divided: `num_training` of them, drawn with `seed`, train the
    network, and only the others are encoded. So training never sees a class that is
    encoded. The two groups share only the people who drew them, and the alphabets.

    The network has three convolutions (3×3, stride 2, then normalised over the drawing,
    and rectified) and a rectified linear layer of `dim` features. It is trained with a
    linear classifier on top, which is then dropped. The classifier's classes are the
    training characters and their turns by 90, 180 and 270 degrees, four times as many
    (Santoro et al., 2016, "Meta-learning with memory-augmented neural networks",
    enlarge Omniglot in this way). Each drawing is shifted, stretched and sheared at
    random. The optimizer is Adam with a rate that decays to zero along a cosine.

    On one machine and version of JAX, the same settings give the same bits. The default
    takes less than a minute on two cores.
    """

    dim: int = 512
    """How many features."""
    num_training: int = 92
    """How many characters train the network; they are not encoded. The default leaves
    150 of the 242 characters in Omniglot's two small sets."""
    steps: int = 600
    """How many batches of 128 drawings train the network."""
    seed: int = 0
    """At least 0; decides how the classes are divided, and the network."""

    def __post_init__(self) -> None:
        for name in ("dim", "num_training", "steps"):
            positive(name, getattr(self, name))
        check_index("seed", self.seed)

    def split(
        self, num_classes: int
    ) -> tuple[Int[np.ndarray, " training"], Int[np.ndarray, " encoded"]]:
        """The indices of the classes that train, and of the others; both ascending.

        **Raises:** `ValueError` unless there are more than `num_training` classes.
        """
        if num_classes <= self.num_training:
            raise ValueError(
                "num_training must be less than the number of classes, "
                f"{num_classes}, because the remaining classes are encoded, got "
                f"{self.num_training}"
            )
        order = np.random.default_rng(self.seed).permutation(num_classes)
        return np.sort(order[: self.num_training]), np.sort(order[self.num_training :])

    def encode(
        self,
        images: Float32[np.ndarray, "class exemplar size size"],
        symmetries: int = 1,
    ) -> Float32[np.ndarray, "encoded exemplar dim"]:
        """Trains the network and encodes the characters that did not train it.

        **Arguments:**

        - `images`: Drawings in [0, 1] with ink 1.
        - `symmetries`: How many consecutive classes are one character. The first of
            them is the character as drawn; only this one trains the network.

        **Returns:**

        The features of the characters `split(len(images) // symmetries)[1]`, under all
        symmetries. They are at least 0. They are scaled so that the mean square over
        the training characters is 1 (so it is about 1 over the encoded characters).
        """
        characters = images.reshape(-1, symmetries, *images.shape[1:])
        training, others = self.split(len(characters))
        network = _train(self, characters[training, 0])
        features = np.asarray(_features(network, jnp.asarray(images)))
        features = features.reshape(-1, symmetries, *features.shape[1:])
        unit = np.sqrt(np.mean(np.square(features[training]), dtype=np.float64))
        encoded = features[others] / np.float32(unit)
        return encoded.reshape(-1, *encoded.shape[2:])


class _Convolution(eqx.Module):
    """3×3 with stride 2, normalised over all of its output, and rectified."""

    weight: Float[Array, "patch channels_out"]
    bias: Float[Array, " channels_out"]

    def __init__(self, channels_in: int, channels_out: int, *, key: PRNGKeyArray):
        patch = 9 * channels_in
        self.weight = jax.random.normal(key, (patch, channels_out)) / math.sqrt(patch)
        self.bias = jnp.zeros(channels_out)

    def __call__(
        self, x: Float[Array, "size size channels_in"]
    ) -> Float[Array, "half half channels_out"]:
        # One product with all patches: XLA's own convolutions take twice the time on a
        # CPU. The padding suits the last patch of both even and odd sizes.
        end = 2 * _half(len(x))
        padded = jnp.pad(x, ((1, 2), (1, 2), (0, 0)))
        shifted = [
            padded[i : i + end : 2, j : j + end : 2] for i in range(3) for j in range(3)
        ]
        h = jnp.concatenate(shifted, -1) @ self.weight
        return jax.nn.relu((h - h.mean()) * jax.lax.rsqrt(h.var() + 1e-5) + self.bias)


class _Network(eqx.Module):
    """Convolutions, the layer of features, and the classifier that trains them."""

    convolutions: tuple[_Convolution, ...]
    linear: eqx.nn.Linear
    classifier: eqx.nn.Linear

    def __init__(self, size: int, dim: int, num_classes: int, *, key: PRNGKeyArray):
        *keys, linear_key, last = jax.random.split(key, len(_CHANNELS) + 2)
        widths = zip((1, *_CHANNELS), _CHANNELS, keys, strict=False)
        self.convolutions = tuple(_Convolution(i, o, key=k) for i, o, k in widths)
        for _ in _CHANNELS:
            size = _half(size)
        self.linear = eqx.nn.Linear(size**2 * _CHANNELS[-1], dim, key=linear_key)
        self.classifier = eqx.nn.Linear(dim, num_classes, key=last)

    def features(self, image: Float[Array, "size size"]) -> Float[Array, " dim"]:
        x = image[..., None]
        for convolution in self.convolutions:
            x = convolution(x)
        return jax.nn.relu(self.linear(x.ravel()))

    def logits(self, image: Float[Array, "size size"]) -> Float[Array, " class"]:
        return self.classifier(self.features(image))


def _half(size: int) -> int:
    return -(-size // 2)


def _train(
    config: ConvEncoder, images: Float32[np.ndarray, "class exemplar size size"]
) -> _Network:
    """The network after training on all given drawings."""
    turns = [np.rot90(images, turn, (2, 3)) for turn in range(_TURNS)]
    drawings = jnp.asarray(np.concatenate(turns))
    init_key, train_key = jax.random.split(jax.random.key(config.seed))
    network = _Network(len(images[0, 0]), config.dim, len(drawings), key=init_key)
    state = _optimizer(config.steps).init(eqx.filter(network, eqx.is_array))
    bar = tqdm(range(config.steps), desc="encoder", unit="step", disable=None)
    for number in bar:
        key = jax.random.fold_in(train_key, number)
        network, state, loss = _step(network, state, drawings, key, config.steps)
        bar.set_postfix(loss=f"{float(loss):.3f}", refresh=False)
    return network


# Not `icl.compile.jit`: its option makes these larger products five times slower.
@functools.partial(jax.jit, static_argnames="steps")
def _step(
    network: _Network,
    state: PyTree,
    drawings: Float[Array, "class exemplar size size"],
    key: PRNGKeyArray,
    steps: int,
) -> tuple[_Network, PyTree, Float[Array, ""]]:
    """One of `steps` steps: the new network, the optimizer's state and the loss."""
    loss, grad = jax.value_and_grad(_loss)(network, *_batch(drawings, key=key))
    updates, state = _optimizer(steps).update(grad, state)
    return eqx.apply_updates(network, updates), state, loss


def _optimizer(steps: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, steps))


@jax.jit
def _features(
    network: _Network, images: Float[Array, "class exemplar size size"]
) -> Float[Array, "class exemplar dim"]:
    return jax.lax.map(jax.vmap(network.features), images)


def _loss(
    network: _Network,
    images: Float[Array, "batch size size"],
    labels: Int[Array, " batch"],
) -> Float[Array, ""]:
    logits = jax.vmap(network.logits)(images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def _batch(
    drawings: Float[Array, "class exemplar size size"], *, key: PRNGKeyArray
) -> tuple[Float[Array, "batch size size"], Int[Array, " batch"]]:
    """Randomly drawn and moved drawings, and their classes."""
    class_key, exemplar_key, move_key = jax.random.split(key, 3)
    classes, exemplars, *_ = drawings.shape
    labels = jax.random.randint(class_key, (_BATCH_SIZE,), 0, classes)
    chosen = jax.random.randint(exemplar_key, (_BATCH_SIZE,), 0, exemplars)
    keys = jax.random.split(move_key, _BATCH_SIZE)
    return jax.vmap(_moved)(drawings[labels, chosen], keys), labels


def _moved(
    image: Float[Array, "size size"], key: PRNGKeyArray
) -> Float[Array, "size size"]:
    """A drawing under a random affine map around its centre, interpolated linearly."""
    stretch_key, shift_key = jax.random.split(key)
    size = len(image)
    linear = jnp.eye(2) + _STRETCH * jax.random.normal(stretch_key, (2, 2))
    shift = jax.random.uniform(shift_key, (2, 1, 1), minval=-1, maxval=1)
    centred = jnp.arange(size) - (size - 1) / 2
    grid = jnp.stack(jnp.meshgrid(centred, centred, indexing="ij"))
    source = jnp.tensordot(linear, grid, 1) + (size - 1) / 2 + shift * _SHIFT * size
    return jax.scipy.ndimage.map_coordinates(image, list(source), order=1)
