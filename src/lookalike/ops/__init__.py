"""Small tensor functions that losses, miners and metrics share, in plain differentiable torch."""
