"""The study of figures 3, 4a and 5b over seeds.

Everything else for the paper is in the folder above.
"""
