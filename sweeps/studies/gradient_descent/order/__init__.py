"""The study `order`: which solution training finds, and whether pairs' order matters."""
