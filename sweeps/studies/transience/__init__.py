"""Singh et al. 2023, "The transient nature of emergent …" (arXiv 2311.08360).

Everything for this paper; what it shares with the coopetition paper is a folder above.
"""
