"""The study `order`: which solution training finds; whether the order matters.

Its figures and claims are in the folder above.
"""
