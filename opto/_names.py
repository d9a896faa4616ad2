"""The field's usual names of sites within attention."""

INSIDE = "q_in k_in v_in q_pre k_pre q k v scores kernel pattern".split()
"""Sites that feed only later sites of the same attention, up to `z`."""
WEIGHTS = {*INSIDE} - {"v_in", "v"}
"""Sites that decide how much tokens attend to each other, not what values they get."""

MIXED = "z_post"
"""The site of attention's `z` after a step over all heads, if it has one.

A head then has no `result`: what it writes depends on the other heads.
"""


def scope_of(name: str) -> str:
    """A site's name without its last part: `blocks.0.attn` of `blocks.0.attn.q`."""
    return name.rpartition(".")[0]


def last_name(name: str) -> str:
    """The last part of a site's name: `q` of `blocks.0.attn.q`."""
    return name.rpartition(".")[2]
