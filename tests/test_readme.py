"""The links of the README lead somewhere; its code is run by ``test_docs_code.py``."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_linked_files_exist():
    for link in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / link).exists(), link
