"""Figures 4b, 6, A7, A8, A15 and A17 of the induction-head paper over five seeds."""
