"""Which pictures of an index a person means."""

from collections.abc import Sequence

from lookalike.errors import BadInput, did_you_mean
from lookalike.search.index import Index
from lookalike.search.sources import inside

__all__ = ["choose"]


def choose(index: Index, paths: Sequence[str], label: str | None, missing: bool) -> list[int]:
    """The ids of pictures by path or folder, by label, and of those whose files are gone."""
    if not paths and label is None and not missing:
        raise BadInput("say what to remove: paths, --label or --missing")
    if label is not None and label not in index.label_names:
        raise BadInput(
            f"no picture has the label '{label}'; {did_you_mean(label, index.label_names)}"
        )
    wanted = {path.removeprefix("./").rstrip("/"): 0 for path in paths}
    chosen = []
    for id, record in zip(index.ids.tolist(), index.records, strict=True):
        parts = record.path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        named = [path for path in above if path in wanted]
        for path in named:
            wanted[path] += 1
        gone = missing and inside(index.roots[record.root], record.path) is None
        if named or gone or (label is not None and record.label == label):
            chosen.append(id)
    for path, found in wanted.items():
        if not found:
            raise BadInput(f"the index has no '{path}'; {did_you_mean(path, index.paths[:10_000])}")
    return chosen
