"""QK and OV circuits of attention heads, their copying scores and how they compose.

After Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". A head of
width `d_head` has circuits of at most that rank, so they are kept as two thin factors;
the `d_model x d_model` products are formed only on request.

Circuits act on what a head reads. In a model with norms, that is the normed residual
stream: fold the scales and offsets of norms into the weights first. A circuit leaves
out the biases of queries, keys and values, and rotary positions.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, PRNGKeyArray

from ._checks import whole


def _single(x: Array) -> Array:
    """At least float32: the decompositions do not take floats of 16 bits."""
    floats = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4
    return x.astype(jnp.float32) if floats else x


class Factored(eqx.Module):
    """A matrix `left @ right` of low rank, or one for each index of the batch axes.

    `@` with a matrix or another `Factored`, on either side, stays factored, with the
    smaller of the two ranks; batch axes broadcast. `f[3]` indexes the batch axes.
    Factors of 16 bits become float32.
    """

    left: Float[Array, "*batch rows rank"] = eqx.field(converter=_single)
    right: Float[Array, "*batch rank columns"] = eqx.field(converter=_single)

    __array_ufunc__: ClassVar[None] = None  # `numpy_array @ self` calls __rmatmul__.

    def __check_init__(self):
        left, right = self.left.shape, self.right.shape
        if min(len(left), len(right)) < 2 or (*left[:-2], left[-1]) != right[:-1]:
            wanted = "left [*batch, rows, rank] and right [*batch, rank, columns]"
            raise ValueError(f"Factored takes {wanted}, got shapes {left} and {right}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the product: batch axes, rows, columns."""
        return (*self.left.shape[:-1], self.right.shape[-1])

    @property
    def rank(self) -> int:
        """The width of the factors; the rank of the product is at most that."""
        return self.left.shape[-1]

    @property
    def T(self) -> "Factored":
        """The transposed matrices; batch axes stay in front."""
        return Factored(self.right.mT, self.left.mT)

    def product(self) -> Float[Array, "*batch rows columns"]:
        """The whole matrices."""
        return self.left @ self.right

    def __matmul__(self, other: "Array | np.ndarray | Factored") -> "Factored":
        _check_fit(self.shape, other.shape)
        if not isinstance(other, Factored):
            return _broadcast(self.left, self.right @ jnp.asarray(other))
        middle = self.right @ other.left
        if self.rank <= other.rank:
            return _broadcast(self.left, middle @ other.right)
        return _broadcast(self.left @ middle, other.right)

    def __rmatmul__(self, other: Array | np.ndarray) -> "Factored":
        _check_fit(other.shape, self.shape)
        return _broadcast(jnp.asarray(other) @ self.left, self.right)

    def __getitem__(self, index) -> "Factored":
        # NumPy finds the entries: it refuses an index out of range, JAX takes the last.
        batch = self.shape[:-2]
        chosen = np.arange(np.prod(batch, dtype=int)).reshape(batch)[index]
        take = lambda x: x.reshape(-1, *x.shape[-2:])[chosen]
        return Factored(take(self.left), take(self.right))

    def eigenvalues(self) -> Complex[Array, "*batch eigenvalue"]:
        """The `min(rows, rank)` eigenvalues that need not be zero, in any order.

        They are computed from `right @ left`, which has the same ones. **Raises:**
        `ValueError` unless the product is square.
        """
        rows, columns = self.shape[-2:]
        if rows != columns:
            shape = self.shape
            raise ValueError(f"eigenvalues are of square matrices, got shape {shape}")
        small = self.product() if rows < self.rank else self.right @ self.left
        return jnp.linalg.eigvals(small)

    def singular_values(self) -> Float[Array, "*batch singular_value"]:
        """The `min(rows, rank, columns)` ones that need not be zero, largest first."""
        core = jnp.linalg.qr(_shortened(self).mT, mode="r")
        return jnp.linalg.svd(core, compute_uv=False)

    def svd(
        self,
    ) -> tuple[
        Float[Array, "*batch rows k"],
        Float[Array, "*batch k"],
        Float[Array, "*batch k columns"],
    ]:
        """Left singular vectors, singular values and right singular vectors.

        As `jnp.linalg.svd` without full matrices, but from the factors, with as many
        values as `singular_values`.
        """
        left, core_left = jnp.linalg.qr(self.left)
        right, core_right = jnp.linalg.qr(self.right.mT)
        u, values, v = jnp.linalg.svd(core_left @ core_right.mT, full_matrices=False)
        return left @ u, values, v @ right.mT

    def norm(self) -> Float[Array, "*batch"]:
        """The Frobenius norm of the product."""
        return jnp.linalg.norm(_shortened(self), axis=(-2, -1))


class HeadWeights(eqx.Module):
    """The weight matrices of the heads of one layer, each applied as `W @ x`.

    There may be fewer keys and values than heads. Then each serves several heads in a
    row, all of them the same number.

    **Fields:**

    - `query`, `key`, `value`, `output`: The matrices.
    - `bilinear`: Whether the score of two tokens is bilinear in what the head reads of
        them, apart from rotations. If not, there is no QK circuit.
    - `of`: The name of the kind of attention, for messages.
    - `additive`: Whether the layer writes the sum of what its heads write, each alone.
        If not, there is no OV circuit.
    """

    query: Float[Array, "head d_head d_model"]
    key: Float[Array, "kv_head d_head d_model"]
    value: Float[Array, "kv_head d_head d_model"]
    output: Float[Array, "head d_model d_head"]
    bilinear: bool = eqx.field(static=True, default=True)
    of: str = eqx.field(static=True, default="attention")
    additive: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        shapes = [x.shape for x in (self.query, self.key, self.value, self.output)]
        fit = all(len(shape) == 3 for shape in shapes) and (
            shapes[0] == (shapes[3][0], *shapes[3][:0:-1])
            and shapes[1] == shapes[2]
            and shapes[1][1:] == shapes[0][1:]
            and shapes[1][0] > 0
            and shapes[0][0] % shapes[1][0] == 0
        )
        if not fit:
            wanted = (
                "query [head, d_head, d_model], key and value with the same number of "
                "heads or a divisor of it, output [head, d_model, d_head]"
            )
            raise ValueError(f"HeadWeights takes {wanted}, got shapes {shapes}")

    def per_head(
        self, shared: Float[Array, "kv_head d_head d_model"]
    ) -> Float[Array, "head d_head d_model"]:
        """Keys or values, repeated so that each head has its own."""
        times = len(self.query) // len(shared)
        return shared if times == 1 else jnp.repeat(shared, times, 0)


def qk(weights: HeadWeights) -> Factored:
    r"""$W_Q^\top W_K$ of each head: where it attends (Elhage et al. 2021).

    $x_q^\top (W_Q^\top W_K)\, x_k$ is the score of query $x_q$ and key $x_k$ before
    scaling. Rotary positions act between the two matrices and are left out. In a model
    that has them, this is the circuit at distance zero: a token attends to itself.

    **Returns:** `[head, d_model (of the query), d_model (of the key)]`.

    **Raises:** `ValueError` for attention without such a circuit, such as attention
    that puts queries and keys through a feature map.
    """
    if not weights.bilinear:
        raise ValueError(
            f"qk: {weights.of} has no QK circuit, because its weights are not bilinear "
            "in what its queries and keys read"
        )
    return Factored(weights.query.mT, weights.per_head(weights.key))


def ov(weights: HeadWeights) -> Factored:
    r"""$W_O W_V$ of each head: what it moves (Elhage et al. 2021).

    $W_O W_V x$ is what the head writes when it attends only to $x$.

    **Returns:** `[head, d_model (written), d_model (read)]`.

    **Raises:** `ValueError` for attention that mixes heads before its output.
    """
    if not weights.additive:
        raise ValueError(
            f"ov: {weights.of} has no OV circuit, because what a head writes depends "
            "on what all heads gathered"
        )
    return Factored(weights.output, weights.per_head(weights.value))


def copying_score(circuit: Factored) -> Float[Array, "*batch"]:
    r"""$\sum_i \lambda_i / \sum_i |\lambda_i|$ over the circuit's eigenvalues.

    In $[-1, 1]$; near one, tokens raise their own logits (Elhage et al. 2021, on
    detecting copying). It is meant for the circuit from tokens to logits,
    $W_U W_{OV} W_E$: `copying_score(unembed @ ov(weights) @ embed.T)` with `unembed`
    and `embed` `[token, d_model]`. NaN for a circuit that is zero.
    """
    eigenvalues = circuit.eigenvalues()
    return eigenvalues.sum(-1).real / jnp.abs(eigenvalues).sum(-1)


def alignment(
    ov: Factored,
    inputs: Float[Array, "input d_model"],
    outputs: Float[Array, "output d_model"],
) -> Float[Array, "*batch output input"]:
    """The cosine between what a head writes for each input and each output vector.

    With label embeddings as inputs and label unembeddings as outputs, a head that
    copies labels has a large diagonal. Unlike `copying_score`, this also compares
    inputs and outputs that are not the same tokens. NaN where either vector is zero.
    """
    written = ov @ inputs.T
    length = jnp.linalg.norm(written.product(), axis=-2, keepdims=True)
    outputs = _single(outputs)
    targets = outputs / jnp.linalg.norm(outputs, axis=-1, keepdims=True)
    return (targets @ written).product() / length


def composition(
    writer: Factored, reader: Factored
) -> Float[Array, "reader_head writer_head"]:
    r"""$\|R W\| / (\|R\|\,\|W\|)$ in Frobenius norms, for every pair of circuits.

    How much of what `writer` writes lies where `reader` reads: the composition score
    of Elhage et al. 2021, in $[0, 1]$. NaN for a circuit that is zero.

    **Arguments:**

    - `writer`: `[writer_head, d_model, columns]`.
    - `reader`: `[reader_head, rows, d_model]`.
    """
    if len(writer.shape) != 3 or len(reader.shape) != 3:
        got = f"shapes {writer.shape} and {reader.shape}"
        raise ValueError(f"writer and reader have one batch axis, the heads; got {got}")
    _check_fit(reader.shape, writer.shape)
    over_writers = jax.vmap(_composition, (0, None))
    return jax.vmap(over_writers, (None, 0))(writer, reader)


def q_composition(
    writer: HeadWeights, reader: HeadWeights
) -> Float[Array, "reader_head writer_head"]:
    """`composition` into queries: the writer's OV, read by the reader's QK, transposed.

    `writer` is an earlier layer than `reader`.
    """
    return composition(ov(writer), qk(reader).T)


def k_composition(
    writer: HeadWeights, reader: HeadWeights
) -> Float[Array, "reader_head writer_head"]:
    """`composition` into keys: the writer's OV, read by the reader's QK.

    It joins a previous-token head and an induction head into one circuit.
    """
    return composition(ov(writer), qk(reader))


def v_composition(
    writer: HeadWeights, reader: HeadWeights
) -> Float[Array, "reader_head writer_head"]:
    """`composition` into values: the writer's OV, read by the reader's OV."""
    return composition(ov(writer), ov(reader))


def random_composition(
    writer: HeadWeights, reader: HeadWeights, *, key: PRNGKeyArray, samples: int = 256
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""Mean and standard deviation of `composition` for random weights.

    All four matrices of a pair of heads are Gaussian, with the shapes of `writer` and
    `reader`. Composition into queries, keys and values is then the same. The root mean
    square over all pairs is $d_\text{model}^{-1/2}$.

    **Arguments:**

    - `samples`: The number of pairs of heads, at least two. The standard error of the
        mean is the standard deviation divided by the square root of `samples`.
    """
    samples = whole("samples", samples, 2)
    keys = jax.random.split(key)
    scores = jax.vmap(_composition)(
        _gaussian(ov(writer), samples, key=keys[0]),
        _gaussian(ov(reader), samples, key=keys[1]),
    )
    return scores.mean(), scores.std(ddof=1)


def _composition(writer: Factored, reader: Factored) -> Float[Array, ""]:
    # Rotations of the reader's rows and the writer's columns do not change norms.
    reads, writes = _shortened(reader), _shortened(writer.T).mT
    norm = jnp.linalg.norm
    return norm(reads @ writes) / (norm(reads) * norm(writes))


def _gaussian(like: Factored, samples: int, *, key: PRNGKeyArray) -> Factored:
    left, right = jax.random.split(key)
    return Factored(
        jax.random.normal(left, (samples, *like.left.shape[-2:]), like.left.dtype),
        jax.random.normal(right, (samples, *like.right.shape[-2:]), like.right.dtype),
    )


def _shortened(f: Factored) -> Float[Array, "*batch short columns"]:
    """The product up to a rotation of its column space, in `min(rows, rank)` rows.

    With the thin `left = Q R` it is `R @ right`. Its norms and singular values are
    those of the product.
    """
    return jnp.linalg.qr(f.left, mode="r") @ f.right


def _broadcast(left: Array, right: Array) -> Factored:
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    whole = lambda x: jnp.broadcast_to(x, (*batch, *x.shape[-2:]))
    return Factored(whole(left), whole(right))


def _check_fit(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    if min(len(left), len(right)) < 2 or left[-1] != right[-2]:
        got = f"shapes {left} and {right}"
        raise ValueError(f"a product needs matrices that fit, got {got}")
