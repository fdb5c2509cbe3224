"""The documentation site, built by ``make docs`` from pages, code and stored results."""
