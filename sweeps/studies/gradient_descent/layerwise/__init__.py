"""The study `layerwise`: the loss after each layer beside that of descent's steps."""
