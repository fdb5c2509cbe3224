"""An index in a folder: immutable segments, tombstones, and one file that names what is valid."""
