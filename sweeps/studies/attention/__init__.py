"""Kinds of attention on functions in context (limits_of_icl): runs and robustness.

Its runs are here, and what is read off them; figures and claims will join them.
"""
