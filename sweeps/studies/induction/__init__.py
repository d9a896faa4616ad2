"""Singh et al. 2024, "What needs to go right for an induction head?" (2404.07129).

Everything for this paper, including the studies over several seeds; nothing that
another paper needs.
"""
