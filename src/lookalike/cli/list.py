"""``lookalike list``: list losses, networks, recipes and other parts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from lookalike.cli.console import AsJson, print_json, print_lines, print_result
from lookalike.errors import BadInput

if TYPE_CHECKING:
    from lookalike.config.recipes import RecipePage, Row
    from lookalike.report.catalogue import Page


def list_parts(
    kind: Annotated[
        str,
        typer.Argument(
            help="losses, miners, samplers, reducers, regularizers, metrics, datasets, networks, "
            "transforms, keys, published, recipes or studies."
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="A name, to show its page; or words that keys, transforms, papers or recipes "
            "must contain.",
        ),
    ] = None,
    speed: Annotated[
        bool,
        typer.Option("--speed", help="Of networks: measure size and speed here; NAMEs may follow."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List parts or recipes, one line each with the paper, or show one of them.

    Example: lookalike list losses

    Example: lookalike list losses multi-similarity

    Example: lookalike list keys optim

    Example: lookalike list recipes cub triplet

    Example: lookalike list networks --speed resnet50 vit_small_patch16_224
    """
    if speed:
        if kind != "networks":
            raise BadInput(f"--speed is of networks, not of {kind}")
        show_speed(words or [], as_json)
        return
    if kind == "studies" or (kind == "recipes" and words == ["studies"]):
        show_studies(words if words and kind == "studies" else [], as_json)
        return
    if kind == "recipes":
        show_recipes(words or [], as_json)
        return
    from lookalike.report.catalogue import REGISTRIES, catalogue, page

    if not words or kind not in REGISTRIES:
        show_rows(catalogue(kind, words or []), as_json)
        return
    if len(words) > 1:
        raise BadInput(f"'lookalike list {kind}' takes one name, not {len(words)}")
    entry = page(kind, words[0])
    print_result(vars(entry), as_text(entry), as_json)


def show_speed(names: list[str], as_json: bool) -> None:
    """Print size, speed and our scores of networks: of all that are listed, or of those named."""
    from lookalike import models
    from lookalike.models.factory import measure
    from lookalike.progress import ConsoleWatcher
    from lookalike.report.catalogue import untrained_scores

    networks = names or models.names()
    measured = []
    with ConsoleWatcher() as watcher:
        for number, name in enumerate(networks, 1):
            measured.append(measure(name))
            watcher.stage("measuring", number, len(networks))
    scores = untrained_scores()
    if as_json:
        rows = [vars(one) | {"untrained": scores.get(one.network, {})} for one in measured]
        print_json(rows)
        return
    lines = [("network", "parameters", "features", "pixels", "images/s", "Recall@1 untrained")]
    for one in sorted(measured, key=lambda one: -one.images_per_second):
        known = scores.get(one.network, {}).items()
        told = ", ".join(f"{place} {score:.1f}" for place, score in known) or "–"
        size = (f"{one.parameters / 1e6:.2f} M", str(one.features), str(one.size))
        lines.append((one.network, *size, f"{one.images_per_second:.1f}", told))
    print_lines(lines)


def show_recipes(words: list[str], as_json: bool) -> None:
    """Print one recipe, the recipes that contain all words, or the list of tables."""
    from lookalike.config import recipes

    if len(words) == 1 and words[0] in recipes.names():
        recipe = recipes.recipe_page(words[0])
        print_result(vars(recipe), recipe_text(recipe), as_json)
    elif words or as_json:
        show_rows(recipes.find_recipes(words), as_json)
    else:
        show_rows(recipes.tables(), as_json)


def show_studies(names: list[str], as_json: bool) -> None:
    """Print the studies, and how to run one; or the file of those that are named."""
    from lookalike.config import recipes

    for name in names:
        print(recipes.study_text(name), end="")
    if names:
        return
    show_rows(recipes.studies(), as_json)
    if not as_json:
        print("Run one with 'lookalike study run recipe:NAME'.")


def show_rows(rows: Sequence["Row"], as_json: bool) -> None:
    """Print one line each."""
    if as_json:
        print_json([vars(row) for row in rows])
        return
    papers = [f"  [{row.paper}]" if row.paper else "" for row in rows]
    print_lines([(row.name, row.summary + paper) for row, paper in zip(rows, papers, strict=True)])


def as_text(page: "Page") -> str:
    """A page as text: description, defaults, and published settings."""
    lines = [f"{page.name}  [{page.paper}]", "", page.description, "", "Arguments:"]
    lines += [f"  {argument} = {default}" for argument, default in page.defaults.items()]
    for settings in page.tuned:
        values = settings["values"] | settings["beside"]
        shown = ", ".join(f"{key}={value}" for key, value in values.items())
        lines.append(f"Tuned for {settings['dataset']}: {shown}  [{settings['source']}]")
    return "\n".join(lines)


def recipe_text(page: "RecipePage") -> str:
    """A recipe as text: summary, what the paper reports, and its settings as YAML."""
    lines = [f"{page.name}: {page.summary}"]
    lines += [text for text in (page.paper, page.notes) if text]
    lines += [f"Published {score}: {value}" for score, value in page.published.items()]
    return "\n\n".join(lines) + "\n\n" + yaml.safe_dump(page.settings, sort_keys=False).rstrip()
