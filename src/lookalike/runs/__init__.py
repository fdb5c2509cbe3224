"""The folder of a run: its name, its files, and finished runs read again."""
