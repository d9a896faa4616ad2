"""The study of figure 5b over seeds.

All else of the paper is in the folder above.
"""
