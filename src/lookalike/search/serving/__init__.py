"""The parts of the search page's server; ``lookalike.search.server`` joins them."""
