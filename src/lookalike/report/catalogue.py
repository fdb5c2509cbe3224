"""Every part and key that a configuration can name, with a line or a page about each."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lookalike import published, registry
from lookalike.config.recipes import Row, find_recipes
from lookalike.errors import BadInput, did_you_mean

ROOMS = {"metrics": "evaluation", "datasets": "data", "networks": "models"}
"""The rooms whose import fills a registry, where it has another name."""
REGISTRIES = {
    part.kind: part for part in vars(registry).values() if isinstance(part, registry.Registry)
}


def filled(kind: str) -> registry.Registry:
    """The registry of one kind, after its room is imported; the other rooms are not."""
    importlib.import_module(f"lookalike.{ROOMS.get(kind, kind)}")
    return REGISTRIES[kind]


def _keys() -> list[Row]:
    from lookalike.config.reference import key_entries

    return [
        Row(one.name, f"{one.meaning} ({one.type}; {one.default})", "") for one in key_entries()
    ]


TRANSFORMS = {
    "network": "size, crop and interpolation that timm or torchvision publishes the network with",
    "package.module:name": "a function of one image, of torchvision or albumentations",
    "{preset: NAME, size: 336}": "by keys on top of a preset: 'lookalike list keys data.transform'",
}
"""Other values of ``data.transform``."""


def _transforms() -> list[Row]:
    from lookalike.data import PRESETS

    rows = [Row(name, preset.summary, "") for name, preset in PRESETS.items()]
    return [*rows, *(Row(form, meaning, "") for form, meaning in TRANSFORMS.items())]


def _published() -> list[Row]:
    counts = [one.paper for one in published.load()]
    return [
        Row(key, f"{paper.title}: {counts.count(key)} results", f"{paper.authors}, {paper.year}")
        for key, paper in published.papers().items()
    ]


OTHERS: dict[str, Callable[[], list[Row]]] = {
    "keys": _keys,
    "transforms": _transforms,
    "published": _published,
    "recipes": lambda: find_recipes([]),
}
"""Lists of what is not registered by name."""


def catalogue(kind: str, words: Sequence[str] = ()) -> list[Row]:
    """Every part of one kind, or every key, transform, published paper or recipe.

    Args:
        kind: What is listed.
        words: Only the rows with all of these in their name or summary.

    Returns:
        A row each.

    Raises:
        BadInput: There is no such list, or no row has all words.
    """
    if kind in REGISTRIES:
        rows = [Row(e.name, e.summary, e.paper) for e in filled(kind).entries()]
    elif kind in OTHERS:
        rows = OTHERS[kind]()
    else:
        kinds = [*REGISTRIES, *OTHERS]
        raise BadInput(f"there is no list of '{kind}'; {did_you_mean(kind, kinds)}")
    found = [
        row for row in rows if all(w.lower() in f"{row.name} {row.summary}".lower() for w in words)
    ]
    if not found:
        names = did_you_mean(" ".join(words), [row.name for row in rows])
        raise BadInput(f"none of the {kind} has '{' '.join(words)}'; {names}")
    return found


@dataclass(frozen=True)
class Page:
    """The description of one part."""

    name: str
    paper: str
    description: str
    defaults: dict[str, Any]
    tuned: list[dict[str, Any]]


def page(kind: str, name: str) -> Page:
    """Formula, paper, defaults and, for a loss, published tuned settings."""
    if kind not in REGISTRIES:
        raise BadInput(f"'{kind}' have no pages; {did_you_mean(kind, REGISTRIES)}")
    entry = filled(kind).find(name)
    defaults = {
        argument: "required" if p.default is inspect.Parameter.empty else p.default
        for argument, p in (REGISTRIES[kind].arguments(name) or {}).items()
    }
    found = []
    if kind == "losses":
        from lookalike.losses import tuned

        found = [vars(settings) for settings in tuned(name)]
    return Page(name, entry.paper, inspect.getdoc(entry.build) or "", defaults, found)


def untrained_scores(metric: str = "recall@1") -> dict[str, dict[str, float]]:
    """The test scores of pretrained networks' features, from the studies of the package.

    Args:
        metric: The metric.

    Returns:
        Of each network, from data set and transform to its score in per cent.

    >>> sorted(untrained_scores()["efficientnet-lite0"])
    ['cub (small)', 'glyphs (glyphs)', 'omniglot-small (handwriting)']
    """
    from lookalike.shipped import shipped_folder
    from lookalike.study.table import load_results

    found: dict[str, dict[str, float]] = {}
    for path in sorted(shipped_folder("results").glob("*/study.db")):
        results = load_results(path.parent)
        for row in results.baselines:
            config = results.of(row.dataset)[0].config
            if row.baseline == "raw-features":
                place = f"{row.dataset} ({config['data']['transform']})"
                scores = found.setdefault(config["model"]["network"], {})
                scores[place] = 100 * row.separate[0][metric]
    return found
