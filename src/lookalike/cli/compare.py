"""``lookalike compare``: compare runs and studies, and whether that is fair."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli.console import Anyway, AsJson, Metric, ResultFolders, print_json, print_lines

if TYPE_CHECKING:
    from lookalike.compare.comparison import Comparison, OnDataset, Tournament
    from lookalike.study.results import Which


def compare(
    folders: ResultFolders,
    metric: Metric = None,
    concatenated: Annotated[
        bool, typer.Option("--concatenated", help="Score the folds' concatenated embeddings.")
    ] = False,
    anyway: Anyway = False,
    as_json: AsJson = False,
) -> None:
    """Compare methods: scores with intervals, the fairness audit, significant differences.

    Example: lookalike compare runs/glyphs-triplet-0123456789ab runs/glyphs-circle-ba9876543210

    Runs that differ in seed and fold alone count as repeats of one method, and studies that differ
    in their seed alone as repeats of the whole study. "Better" is said where it holds for other
    training runs (or studies) and for other test classes.
    """
    from lookalike.compare.comparison import check_concatenated, chosen_metric
    from lookalike.compare.comparison import compare as compare_rows
    from lookalike.compare.contenders import gather

    gathered = gather(folders)
    which: Which = "concatenated" if concatenated else "separate"
    if concatenated:
        check_concatenated(gathered)
    found = compare_rows(gathered, metric or chosen_metric(gathered), which, allow_unfair=anyway)
    if as_json:
        print_json(as_mapping(found))
        return
    for sentence in gathered.skipped:
        print(f"note: {sentence}")
    for part in found.datasets:
        print_part(found, part)
    print_tournament(found)


def print_part(found: "Comparison", part: "OnDataset") -> None:
    """Print one data set: the table, the audit, the claims."""
    from rich.console import Console

    from lookalike.report.formatting import metric_label
    from lookalike.report.scores import compact, main_table
    from lookalike.report.tables import as_text

    table = main_table(part, found.metric, found.which)
    several = any(one.concatenated for one in part.contenders)
    scored = {"separate": "the folds' separate models", "concatenated": "concatenated embeddings"}
    of = f", of {scored[found.which]}" if several else ""
    print(f"{part.label}, by {metric_label(found.metric)}{of}")
    Console(highlight=False).print(as_text(compact(table)))
    print_settings(part)
    for number, flaw in enumerate(part.audit.flaws, 1):
        print(f"  [{number}] {flaw.sentence}")
    if part.audit.fair:
        print(f"Fair: nothing but the method differs. {part.searched}".rstrip())
    if part.readings:
        print(part.readings)
    if part.ranking == "refused":
        print("Not ranked: the rows differ beyond the method. --anyway ranks them and says so.")
    elif part.ranking == "anyway":
        print("Ranked although the comparison is not fair.")
    print_claims(part)


def print_settings(part: "OnDataset") -> None:
    """Print in which settings the rows with a number in their name differ."""
    numbered = [one for one in part.contenders if one.settings]
    if numbered:
        print("Rows of one name differ in these settings:")
    for one in sorted(numbered, key=lambda one: one.name):
        shown = ", ".join(f"{key}={value}" for key, value in one.settings.items())
        print(f"  {one.name}: {shown}")


def print_claims(part: "OnDataset") -> None:
    """Print what holds, what holds for this test set only, and the number of open pairs."""
    from lookalike.report.method_charts import power_sentence

    if part.differences:
        print(part.basis)
    for sentence in part.shares:
        print(sentence)
    for sentence in (*part.claims, *part.narrow_claims):
        print(sentence)
    if part.differences:
        print(f"No significant difference in {part.open} of {len(part.differences)} pairs.")
    elif part.ranking != "refused" and len(part.contenders) > 1:
        print("There is nothing to compare: no training run has scores of every method.")
    for base, methods in part.no_better_than_baseline.items():
        if part.differences and part.classes and part.trainings > 1 and methods:
            print(f"Not shown to beat {base}: {', '.join(methods)}.")
    sentence = power_sentence(part)
    if sentence:
        print(sentence)


def print_tournament(found: "Comparison") -> None:
    """Print average ranks, and what is known of their differences."""
    from lookalike.report.formatting import p_value

    result = found.tournament
    if result is None:
        return
    print(f"\nTournament over {result.about}:")
    lines = []
    for one in result.standings:
        spread = "" if one.deviation is None else f" ± {one.deviation:.2f}"
        total = [f"total {one.total:4g}"] if result.cells else []
        lines.append([f"  {one.name}", *total, f"average rank {one.rank:5.2f}{spread}"])
    print_lines(lines)
    if result.friedman and result.distance is not None:
        print(
            f"Friedman: {p_value(result.friedman.p)}. Ranks closer than {result.distance:.2f} "
            "cannot be distinguished (Nemenyi, 5 %)."
        )
    elif not result.cells:
        print("The ranks themselves are not tested: what is shown to be better stands above.")


def as_mapping(found: "Comparison") -> dict[str, Any]:
    """The comparison as JSON values."""
    return {
        "metric": found.metric,
        "which": found.which,
        "datasets": [
            {
                "dataset": part.dataset,
                "axes": dict(part.axes),
                "ranking": part.ranking,
                "trainings": part.trainings,
                "classes": part.classes,
                "basis": part.basis,
                "rows": [row_mapping(one, part, found) for one in part.contenders],
                "audit": {
                    "verdict": part.audit.verdict,
                    "flaws": [asdict(flaw) for flaw in part.audit.flaws],
                },
                "differences": [
                    asdict(d) | {"scope": d.scope, "holds": d.holds} for d in part.differences
                ],
                "studies": part.studies,
                "shares": part.shares,
                "searched": part.searched,
                "readings": part.readings,
                "claims": part.claims,
                "narrow_claims": part.narrow_claims,
            }
            for part in found.datasets
        ],
        "tournament": tournament_mapping(found.tournament) if found.tournament else None,
    }


def tournament_mapping(tournament: "Tournament") -> dict[str, Any]:
    """The ranks as JSON values."""
    standings = [
        asdict(one) | {"rank": one.rank, "deviation": one.deviation, "total": one.total}
        for one in tournament.standings
    ]
    return asdict(tournament) | {"standings": standings}


def row_mapping(one: Any, part: "OnDataset", found: "Comparison") -> dict[str, Any]:
    """One method as JSON values; unknown numbers are null."""
    bounds = part.bounds.get(one.name)
    metrics = {metric: one.interval(metric, found.which) for metric in one.metrics}
    return {
        "name": one.name,
        "baseline": one.baseline,
        "settings": dict(one.settings),
        "conditions": dict(one.experiment.conditions),
        "scores": {
            metric: value.as_mapping() for metric, value in metrics.items() if value is not None
        },
        "over_classes": asdict(bounds) if bounds else None,
    }
