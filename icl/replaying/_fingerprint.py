"""Digests of the program of a function, and of arrays."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import PyTree


def fingerprint(fn: Callable[..., Any], *args: PyTree) -> str:
    """A digest of what a function computes from arrays of these shapes.

    It is the digest of the traced program with its constants. So a measure that was
    rewritten but computes the same has the same digest. A function that calls back into
    Python has a new digest each time.
    """
    closed = jax.make_jaxpr(fn)(*args)
    found = hashlib.blake2b(digest_size=16)
    for part in _parts(closed.jaxpr, closed.consts):
        found.update(part)
    text = re.sub(r" at 0x[0-9a-f]+", "", str(closed.jaxpr))
    found.update(text.encode())
    return found.hexdigest()


def _parts(jaxpr: Jaxpr, consts: Iterable[Any]) -> Iterator[bytes]:
    """What the text of a program leaves out, also for programs inside it."""
    for const in consts:
        yield array_bytes(const)
    for eqn in jaxpr.eqns:
        if "callback" in eqn.primitive.name:
            yield os.urandom(16)
        for var in eqn.invars:
            if isinstance(var, Literal):
                yield array_bytes(var.val)
        inner = lambda leaf: isinstance(leaf, Jaxpr | ClosedJaxpr)
        for leaf in jax.tree.leaves(eqn.params, is_leaf=inner):
            if isinstance(leaf, ClosedJaxpr):
                yield from _parts(leaf.jaxpr, leaf.consts)
            elif isinstance(leaf, Jaxpr):
                yield from _parts(leaf, ())
            elif eqx.is_array(leaf):
                yield array_bytes(leaf)


def content(tree: PyTree) -> str:
    """A digest of a tree's arrays."""
    found = hashlib.blake2b(digest_size=16)
    for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)):
        found.update(array_bytes(leaf))
    return found.hexdigest()


def array_bytes(leaf: Any) -> bytes:
    """An array's type, shape and content as bytes; for a key, those of its data."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return f"{array.dtype}{array.shape}".encode() + array.tobytes()
