"""Singh et al. 2025, "Strategy coopetition explains …" (arXiv 2503.05631).

Everything of this paper; what it shares with that on transience is a folder above.
"""
