"""Weights of the public code of von Oswald et al. (2023, arXiv 2212.07677)."""

from ._weights import load_model as load_model
