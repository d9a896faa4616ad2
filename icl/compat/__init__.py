"""Runs and weights of other codebases, as this one's."""
