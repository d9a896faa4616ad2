"""What the tokens of a sequence are: the roles there are, and the sites that tell.

A model of exemplar-label sequences names four sites, for edits and measures that need
to know: `tokens.role` [seq] says which role each token has, `tokens.pair` [seq] which
exemplar it is or belongs to; `tokens.label` and `tokens.exemplar` [exemplar, …] hold
the labels and the exemplars themselves, the query and its label last.
"""

EXEMPLAR, LABEL, QUERY = 0, 1, 2

ROLES = {"exemplar": EXEMPLAR, "label": LABEL, "query": QUERY}

ROLE, PAIR = "tokens.role", "tokens.pair"
LABELS, EXEMPLARS = "tokens.label", "tokens.exemplar"
