"""The roles of the tokens of a sequence, and the sites that say them.

A model of exemplar-label sequences names four sites for edits and measures.
`tokens.role` [seq] is the role of each token. `tokens.pair` [seq] is the exemplar that
a token is or belongs to. `tokens.label` and `tokens.exemplar` [exemplar, …] are the
labels and the exemplars themselves; the query and its label come last.
"""

EXEMPLAR, LABEL, QUERY = 0, 1, 2

ROLES = {"exemplar": EXEMPLAR, "label": LABEL, "query": QUERY}

ROLE, PAIR = "tokens.role", "tokens.pair"
LABELS, EXEMPLARS = "tokens.label", "tokens.exemplar"

PADDING = -1
"""In sequences of token ids: a token that is not there."""
