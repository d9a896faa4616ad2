"""Singh et al. 2025, "Strategy coopetition explains …" (arXiv 2503.05631).

Everything for this paper; what it shares with the transience paper is a folder above.
"""
