"""Which method for my pictures? A look at the data, a study within a budget, one recommendation."""
