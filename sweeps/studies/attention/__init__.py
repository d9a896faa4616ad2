"""Kinds of attention on functions in context (limits_of_icl): runs and robustness.

Its runs are here, what is read off them, and its figures and claims.
"""
