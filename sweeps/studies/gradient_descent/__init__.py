"""In-context learning as gradient descent (von Oswald et al. 2023, arXiv 2212.07677).

Everything for this line of papers: the studies `order`, `noise` and `layerwise`, their
figures and claims, and the tables of their numbers.
"""
