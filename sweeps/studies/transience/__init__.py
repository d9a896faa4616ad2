"""Singh et al. 2023, "The transient nature of emergent …" (arXiv 2311.08360).

Everything of this paper; what it shares with that on coopetition is a folder above.
"""
