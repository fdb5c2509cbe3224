"""``lookalike reproduce``: tables and figures of papers, listed, planned and trained."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from lookalike.cli.console import AsJson, print_json, print_lines, print_result
from lookalike.cli.execution import Address, Cpus, Execution, Executor, Gpus, Results, Workers
from lookalike.errors import BadInput

if TYPE_CHECKING:
    from lookalike.papers import Entry
    from lookalike.papers.run import Outcome

__all__ = ["reproduce"]


def reproduce(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAPER/TABLE [KEY=VALUE]... | WORD...]",
            help="A table or figure and settings of its runs; or words, to list what has them all.",
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what it would train, and how many trainings.")
    ] = False,
    scale: Annotated[
        Literal["paper", "small"],
        typer.Option(help="As in the paper; or small: the same experiment on a laptop."),
    ] = "paper",
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Trainings of each row; default: the table's own.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials of a search; default: the table's own.")
    ] = None,
    results: Results = None,
    workers: Workers = None,
    executor: Executor = "local",
    address: Address = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0,
    as_json: AsJson = False,
) -> None:
    """List tables and figures of papers; plan or train one of them, beside its published numbers.

    Example: lookalike reproduce metrix

    Example: lookalike reproduce metrix/cub --plan

    Example: lookalike reproduce metrix/cub data.root=DATA

    Example: lookalike reproduce thesis/tournament --scale small data.name=cub data.root=DATA

    If interrupted, the same command resumes; finished trainings are not repeated.
    """
    from lookalike.papers.catalogue import entry, find_entries

    given = arguments or []
    words = [word for word in given if "=" not in word]
    settings = [word for word in given if "=" in word]
    if not settings and (len(words) != 1 or "/" not in words[0]):
        show_entries(find_entries(words), as_json)
        return
    if len(words) != 1:
        raise BadInput("'lookalike reproduce' takes one PAPER/TABLE before key=value settings")
    chosen = entry(words[0])
    if chosen.lists:
        show_list(chosen, as_json)
        if results:
            from lookalike.papers.page import write_list_page

            path = results / f"{chosen.name.partition('/')[2]}.html"
            write_list_page(path, chosen, command(given))
        return
    from lookalike.papers.page import write_page
    from lookalike.papers.plan import make_plan
    from lookalike.papers.run import page_of
    from lookalike.papers.run import reproduce as train_plan
    from lookalike.papers.selection import check_data

    planned = make_plan(chosen, scale, settings, repeats, trials)
    if not plan or any(row.config.data.root for row in planned.rows):
        check_data(chosen, planned.rows)
    if plan:
        print_result(planned.as_mapping(), planned.as_text(), as_json)
        return
    options = {"--scale": scale, "--repeats": repeats, "--trials": trials}
    given += [part for name, value in options.items() if value for part in (name, str(value))]
    with Execution(executor, address, workers, cpus, gpus).running("reproduction") as how:
        found = train_plan(planned, **how, folder=results, command=command(given))
    pages = write_page(page_of(planned, results), found)
    if as_json:
        print_json(found.as_mapping())
    else:
        show_outcome(found, pages)
    if found.unfinished:
        raise typer.Exit(1)


def command(given: list[str]) -> str:
    """The command line that was given."""
    return shlex.join(["lookalike", "reproduce", *given])


def show_outcome(found: "Outcome", pages: list[Path]) -> None:
    """Print the table, what became of each claim, and what was written."""
    from lookalike.papers.tables import result_table
    from lookalike.report.tables import as_text

    if found.gathered:
        Console(highlight=False).print(as_text(result_table(found)))
    for sentence in found.deviations:
        print(f"differs: {sentence}")
    for claim in found.claims:
        paper = {"yes": "agree", "no": "contradict it", None: "are not there"}[claim.published]
        print(f"claim: {claim.says} {claim.here[0].upper()}{claim.here[1:]}: {claim.evidence}.")
        print(f"       the published numbers {paper}")
    for row in found.unfinished:
        print(f"not finished: {row}")
    print("written:", *pages)


def show_entries(found: list["Entry"], as_json: bool) -> None:
    """Print one line each, or everything with what it needs."""
    from lookalike.papers.selection import needs

    if as_json:
        listed = [
            {
                "name": one.name,
                "paper": one.paper,
                "kind": one.kind,
                "title": one.heading,
                "source": one.source,
                "needs": needs(one),
                "figures": [figure.kind for figure in one.figures],
                "claims": [claim.says for claim in one.claims],
            }
            for one in found
        ]
        print_json(listed)
        return
    print_lines([(one.name, one.kind, one.heading) for one in found])


def show_list(chosen: "Entry", as_json: bool) -> None:
    """Print a list of the document."""
    from lookalike.papers.tables import list_table

    assert chosen.lists
    table = list_table(chosen.lists)
    names = [column.name for column in table.columns]
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    print(f"{chosen.title}  [{chosen.source}]\n")
    print_lines([names, *rows])
