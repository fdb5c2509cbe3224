"""The search page: a FastAPI application, its limits, tokens and workers."""
