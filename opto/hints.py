"""Parts of messages: the name that was meant, and a value that may be long."""

import difflib
import math
import reprlib
from collections.abc import Iterable
from typing import Any


MOST_NUMBERS = 100
"""An array with more numbers is shown by its type and shape."""

_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 10
_SHORT.maxstring = _SHORT.maxother = 200


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`"; did you mean 'scale'?"` with the nearest known name; "" if none is near.

    ```python
    hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
    raise ValueError(f"no edit {name!r}{hint}")
    ```

    **Arguments:** `cutoff`: How near a name must be, from 0 (any) to 1 (equal).
    """
    near = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def brief(value: Any) -> str:
    """A value for a message: its `repr`, cut where long; arrays as `float32[1000]`."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and hasattr(value, "dtype"):
        if math.prod(shape) > MOST_NUMBERS:
            return f"{value.dtype}{list(shape)}"
    return " ".join(_SHORT.repr(value).split())
