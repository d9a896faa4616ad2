"""The study `order`: which solution training finds; whether the order matters."""
