"""Tokens by name, for `queries=` and `keys=` of edits of attention.

"all" is every token. Other names need a model with a site that says what each token is,
as a whole number; `name_tokens` names those numbers.
"""

from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ._checks import whole


# A name stands for a site and a number: the tokens that have this number there.
TOKENS: dict[str, tuple[str, int]] = {}


def name_tokens(site: str, /, **values: int) -> None:
    """Names the numbers that a site gives to tokens, for edits of attention.

    ```python
    opto.attention.name_tokens("kind", word=0, space=1)
    opto.attention.Block(queries="space", keys="word space")
    ```

    **Arguments:**

    - `site`: The name of a site that holds one whole number for each token, `[seq]`.
    - `values`: The number that each name stands for.

    **Raises:** `ValueError` without names, for a value that is not a whole number, and
    for a name that already stands for something else.
    """
    if not values:
        raise ValueError("name_tokens needs a name, such as word=0")
    for name, value in values.items():
        whole(name, value, -(2**31), "a whole number")
        if name == "all" or TOKENS.get(name, (site, value)) != (site, value):
            raise ValueError(f"the name {name!r} already stands for other tokens")
    TOKENS.update({name: (site, value) for name, value in values.items()})


def check_tokens(argument: str, names: str) -> str:
    """Raises `ValueError` unless `names` is "all" or names of tokens."""
    if names != "all":
        unknown = [word for word in str(names).split() if word not in TOKENS]
        if unknown or not str(names).split():
            there = ", ".join(["all", *TOKENS])
            raise ValueError(f"{argument} names tokens ({there}), got {names}")
    return names


def sites_of(*names: str) -> tuple[str, ...]:
    """The sites that say which tokens have the names."""
    words = [word for name in names if name != "all" for word in name.split()]
    return tuple(dict.fromkeys(TOKENS[word][0] for word in words))


def are_named_at(site: str) -> bool:
    """Whether a site says what each token is."""
    return any(site == named for named, _ in TOKENS.values())


def tokens_of(names: str, size: int, base: Mapping[str, Array]) -> Bool[Array, " seq"]:
    """Which of `size` tokens have one of the names, given the values of their sites."""
    chosen = jnp.full(size, names == "all")
    for word in () if names == "all" else names.split():
        site, value = TOKENS[word]
        chosen = chosen | (base[site] == value)
    return chosen


def not_all(argument: str, names: str) -> dict[str, str]:
    """The names as an argument of the text form; left out if they are "all"."""
    return {} if names == "all" else {argument: names}
