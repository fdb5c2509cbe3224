"""Tables and figures of the papers, made again and judged against the published numbers."""
