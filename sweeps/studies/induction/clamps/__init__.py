"""The study of figures 3, 4a and 5b over seeds.

Everything else of the paper is in the folder above.
"""
