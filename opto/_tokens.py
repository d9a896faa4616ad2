"""The roles that tokens of a sequence can have, as numbers in the site `tokens.role`."""

EXEMPLAR, LABEL, QUERY = 0, 1, 2
