"""Singh et al. 2024, "What needs to go right for an induction head?" (2404.07129).

Everything of this paper, the study of its clamps over several seeds too; nothing that
another paper needs.
"""
