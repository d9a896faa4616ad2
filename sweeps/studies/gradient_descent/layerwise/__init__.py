"""The study `layerwise`: the loss after each layer beside that of descent's steps.

Its figures and claims are in the folder above.
"""
