"""``lookalike mislabelled``: pictures whose neighbours disagree with their label."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.console import AsJson, Page, print_json


def mislabelled(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    k: Annotated[int, typer.Option("-k", min=2, help="The number of neighbours that vote.")] = 10,
    at_least: Annotated[
        float, typer.Option(min=0, max=1, help="The share of votes for another label.")
    ] = 0.7,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Find test pictures whose label is probably wrong.

    Example: lookalike mislabelled runs/folder-multi-similarity-0123456789ab --page doubts.html

    Only test pictures are checked: the network was not trained on their labels.
    """
    from lookalike.runs.run import test_embeddings
    from lookalike.search.mislabelled import find_mislabelled
    from lookalike.training import Run

    tested = test_embeddings(Run(run))
    suspects = find_mislabelled(tested.embeddings.numpy(), tested.labels, k=k, at_least=at_least)
    names = tested.images.class_names
    files = [tested.images.files[index] for index in tested.indices]
    if as_json:
        rows = [
            {
                "path": files[s.row],
                "label": names[s.label],
                "proposed": names[s.proposed],
                "agreement": s.agreement,
                "share": s.share,
                "neighbours": [files[row] for row in s.neighbours],
            }
            for s in suspects
        ]
        print_json(rows)
    else:
        print(f"{len(suspects):,} of {len(files):,} test pictures are in doubt")
        for s in suspects:
            print(f"{s.share:.2f}  {files[s.row]}  {names[s.label]} -> {names[s.proposed]}")
    if page is not None:
        write_page(page, run, tested, suspects)
        if not as_json:
            print(f"page: {page}")


def write_page(path: Path, run: Path, tested: Any, suspects: Any) -> None:
    """Write each suspect with its neighbours."""
    from lookalike.report.embeddings import Pictures, class_label
    from lookalike.report.findings import MOST, Finding, Picture, write_findings
    from lookalike.training import Run

    pictures = Pictures.of_run(Run(run).config, tested.images)

    def picture(row: int, mark: str) -> Picture:
        index = int(tested.indices[row])
        name = class_label(tested.images.class_names[tested.labels[row]])
        file = tested.images.files[index]
        return Picture(pictures.uri(index, 176), name, file.rpartition("/")[2], file, mark)

    rows = [
        Finding(
            f"{class_label(tested.images.class_names[s.label])}, or rather "
            f"{class_label(tested.images.class_names[s.proposed])}? "
            f"{100 * s.share:.0f} % of the vote",
            (
                picture(s.row, "asked"),
                *(
                    picture(near, "agree" if tested.labels[near] == s.proposed else "")
                    for near in s.neighbours[:7]
                ),
            ),
        )
        for s in suspects[: MOST + 1]
    ]
    lead = [
        f"{len(suspects):,} of {len(tested.indices):,} test pictures are in doubt: their "
        "neighbours vote for another label. The picture in doubt comes first."
    ]
    write_findings(path, "Doubtful labels", lead, rows)
