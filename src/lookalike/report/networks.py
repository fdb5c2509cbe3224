"""What our own studies know of a network: how far its features go without any training."""

from lookalike.shipped import shipped_folder
from lookalike.study.result_files import load_results

__all__ = ["untrained_scores"]


def untrained_scores(metric: str = "recall@1") -> dict[str, dict[str, float]]:
    """The test scores of pretrained networks' features, from the studies of the package.

    Args:
        metric: The metric.

    Returns:
        Of each network, from data set and transform to its score in per cent.

    >>> sorted(untrained_scores()["efficientnet-lite0"])
    ['cub (small)', 'glyphs (glyphs)', 'omniglot-small (handwriting)']
    """
    found: dict[str, dict[str, float]] = {}
    for path in sorted(shipped_folder("results").glob("*/study.json")):
        results = load_results(path.parent)
        for row in results.baselines:
            config = results.of(row.dataset)[0].config
            if row.baseline == "raw-features":
                place = f"{row.dataset} ({config['data']['transform']})"
                scores = found.setdefault(config["model"]["network"], {})
                scores[place] = 100 * row.separate[0][metric]
    return found
