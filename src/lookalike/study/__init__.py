"""Studies: many methods, tuned and tested under one honest protocol."""
