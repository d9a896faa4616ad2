"""The control study of the transience paper: how exemplars of a class differ.

The study itself and its figures are in the folder above.
"""
