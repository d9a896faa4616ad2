"""The end of a message about an unknown name."""

import difflib
from collections.abc import Iterable


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
