"""The study of figure 5b over seeds; all else of the paper is in the folder above."""
