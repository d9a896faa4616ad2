"""The study `noise`: models trained on contexts in which some pairs are wrong.

Its figures and claims are in the folder above.
"""
