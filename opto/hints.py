"""What a message about an unknown name ends with."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`"; did you mean 'scale'?"`, of the nearest of the known names; "" if none is.

    ```python
    hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
    raise ValueError(f"no edit {name!r}{hint}")
    ```

    **Arguments:** `cutoff`: How near a name must be, from 0 (any) to 1 (equal).
    """
    near = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""
