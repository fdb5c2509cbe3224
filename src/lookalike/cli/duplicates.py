"""``lookalike duplicates``: find near-duplicates among pictures."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.console import AsJson, Page, print_json
from lookalike.progress import ConsoleWatcher


def duplicates(
    pictures: Annotated[Path, typer.Argument(help="A folder, a CSV, or the folder of an index.")],
    model: Annotated[
        Path | None, typer.Option(help="A run or exported model instead of a pretrained network.")
    ] = None,
    network: Annotated[str, typer.Option(help="The pretrained network.")] = "efficientnet-lite0",
    threshold: Annotated[
        float | None,
        typer.Option(min=-1, max=1, help="The smallest cosine; calibrated if not given."),
    ] = None,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Find near-duplicates by thresholds that are calibrated on validation pairs.

    Example: lookalike duplicates photos/ --page duplicates.html

    Altered copies of your pictures must be found, their nearest pictures of other labels must not;
    thresholds of the embeddings' cosine and of the pixels' correlation are chosen on half of the
    pairs and measured on the other half. Every two pictures of a group are copies.
    """
    from lookalike.inference.source import open_source, require_readable
    from lookalike.search import Embedder, Index
    from lookalike.search.duplicates import calibrate, find_duplicates

    with tempfile.TemporaryDirectory() as folder, ConsoleWatcher() as watcher:
        if (pictures / "index.json").is_file():
            index = Index.open(pictures)
        else:
            require_readable(open_source(pictures))
            chosen = Embedder.from_network(network) if model is None else Embedder.open(model)
            index = Index.create(Path(folder) / "i", chosen)
            for skipped in index.add(pictures, watcher).skipped:
                watcher.note(f"skipped {skipped.path}: {skipped.reason}")
        found = calibrate(index, watcher) if threshold is None else None
        least = found.threshold if found is not None else threshold or 0.0
        groups = find_duplicates(
            index, least, lambda done, total: watcher.stage("comparing", done, total), found
        )
        how = str(found) if found is not None else f"threshold {least:.4f}, as given"
        if page is not None:
            write_page(page, index, groups, how)
    if as_json:
        rows = [vars(g) | {"items": [vars(item) for item in g.items]} for g in groups]
        print_json({"calibration": found and found.as_dict(), "groups": rows})
        return
    print(f"{len(groups):,} groups in {len(index):,} pictures; {how}")
    for group in groups:
        mark = "  different labels" if group.labels_differ else ""
        sure = "" if group.confidence is None else f"  confidence {group.confidence:.2f}"
        print(f"{group.similarity:.4f}{sure}{mark}")
        for item in group.items:
            print(f"    {item.path}")
    if page is not None:
        print(f"page: {page}")


def write_page(path: Path, index: Any, groups: Any, how: str) -> None:
    """Write the groups with thumbnails."""
    from lookalike.report.embeddings import class_label, file_uri
    from lookalike.report.findings import MOST, Finding, Picture, write_findings

    rows = [
        Finding(
            f"cosine {group.similarity:.3f}"
            + ("" if group.confidence is None else f", confidence {group.confidence:.2f}")
            + (", different labels" * group.labels_differ),
            tuple(
                Picture(
                    file_uri(index, item.id) if number < MOST else "",
                    class_label(item.label or ""),
                    item.path.rpartition("/")[2],
                    item.path,
                )
                for item in group.items
            ),
        )
        for number, group in enumerate(groups)
    ]
    lead = [f"{len(groups):,} groups in {len(index):,} pictures.", how[0].upper() + how[1:] + "."]
    write_findings(path, "Near-duplicates", lead, rows)
