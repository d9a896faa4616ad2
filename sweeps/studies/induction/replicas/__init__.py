"""The study of figures 4b, 6, A7, A8, A15 and A17 over five seeds.

Everything else for the paper is in the folder above.
"""
