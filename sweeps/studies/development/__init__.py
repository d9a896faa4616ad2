"""What the loss landscape says about development, by the local learning coefficient.

The study `development`, its figures and claims: linear regression in context as in
Hoogland et al. 2024 (arXiv 2402.02364), and the induction head of Singh et al. 2024.
"""
