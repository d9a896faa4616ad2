"""How a change goes on from one site of attention to the next one.

Within attention, whose sites have the field's usual names, heads and rows are followed
by themselves; anywhere else all entries of a site are made of all that it is made of.
"""

import numpy as np

from ._reach import Entries
from ._site import Site


INSIDE = "q_in k_in v_in q_pre k_pre q k v scores kernel pattern".split()
"""Sites that feed only further ones of the same attention, up to what heads gather."""
WEIGHTS = {"q_in", "k_in", "q_pre", "k_pre", "q", "k", "scores", "kernel", "pattern"}
"""Those that decide how much a token attends, and not what it finds."""

_BY_HEAD = {*INSIDE, "z", "result"}
# By site: to which axis of the next one its axis `seq` goes; other ones are mixed.
_ROWS = {
    **dict.fromkeys(("q_in", "q_pre", "q"), {"q_pre", "q", "scores", "kernel"}),
    **dict.fromkeys(("k_in", "k_pre"), {"k_pre", "k"}),
    "v_in": {"v"},
    **dict.fromkeys(("scores", "kernel"), {"pattern"}),
    "pattern": {"z"},
    "z": {"result"},
}


def carried(source: Site, site: Site, entries: Entries) -> Entries:
    """The entries of a site that are made of some entries of another one."""
    ends = last_name(source.name), last_name(site.name)
    shape = [1] * len(site.shape)
    if scope_of(source.name) != scope_of(site.name) or not {*ends} <= _BY_HEAD:
        return np.ones(shape, bool)
    goes = {"head": "head"}
    if ends[1] in _ROWS.get(ends[0], ()):
        goes["seq"] = "seq"
    elif ends[0] in ("k_in", "k_pre", "k") and ends[1] in ("scores", "kernel"):
        goes["seq"] = "kv_seq"
    kept = []
    for axis, to in goes.items():
        if axis in source.axes and to in site.axes:
            a, b = source.axes.index(axis), site.axes.index(to)
            if source.shape[a] == site.shape[b]:
                kept.append((a, b))
    others = tuple(a for a in range(entries.ndim) if a not in dict(kept))
    reduced = np.asarray(entries.any(axis=others))
    order = [b for _, b in sorted(kept)]
    for (_, b), size in zip(sorted(kept), reduced.shape, strict=True):
        shape[b] = size
    return np.transpose(reduced, np.argsort(order)).reshape(shape)


def scope_of(name: str) -> str:
    """The name of what a site is in: `blocks.0.attn` of `blocks.0.attn.q`."""
    return name.rpartition(".")[0]


def last_name(name: str) -> str:
    """The last part of a site's name: `q` of `blocks.0.attn.q`."""
    return name.rpartition(".")[2]
