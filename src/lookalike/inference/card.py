"""The model card: training data, test protocol and scores of a model."""

from pathlib import Path
from typing import Any

from lookalike.files import atomically
from lookalike.inference.embedder import Embedder

__all__ = ["write_card"]

USE = {
    "onnx": """\
```python
from lookalike.inference.onnx_encoder import OnnxEncoder

vectors = OnnxEncoder("{name}").embed(pictures)
```

Input `images`: float32 [batch, {channels}, {size}, {size}]; output `embeddings`: unit length.""",
    "torchscript": """\
```python
vectors = torch.jit.load("{name}")(images)
```

Input: float32 [batch, {channels}, {size}, {size}]; output: embeddings of unit length.""",
    "safetensors": """\
```python
from lookalike.inference.embedder import Embedder

vectors = Embedder.load("{name}").embed(pictures)
```""",
}


def write_card(path: Path, embedder: Embedder, kind: str, name: str, cosine: float) -> None:
    """Write the card as Markdown: only what the run recorded."""
    made, scaled, preset = embedder.blueprint, embedder.normalisation, embedder.preset
    parts = [
        f"# {name}",
        "Turns pictures into unit vectors; pictures that look alike have a high cosine.",
        "## Model\n\n"
        + table(
            {
                "network": made.network,
                "embedding": f"{embedder.dim} numbers, {made.pooling} pooling",
                "transform": f"{preset.name}: {preset.summary}; tested on the centre",
                "input": f"(pixel x {scaled.scale:.6g} - {list(scaled.mean)}) / {list(scaled.std)}"
                + (", blue first" if scaled.bgr else ""),
                "fingerprint": f"`{embedder.fingerprint}`",
                "format": f"{kind}; least cosine with the original {cosine:.6f}",
            }
        ),
        "## Use\n\n"
        + USE[kind].format(name=name, channels=scaled.channels, size=preset.size or "any"),
        *trained(embedder.origin),
    ]
    with atomically(path) as draft:
        draft.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def trained(origin: dict[str, Any]) -> list[str]:
    """Data, protocol and scores of the run; a pretrained network has none."""
    result = origin.get("result")
    if result is None:
        return ["## Training\n\nNot trained further: the pretrained network as it is."]
    intervals = origin.get("intervals", {})
    rows = {
        "run": f"`{result['run']}`, seed {result['seed']}",
        "data": f"{origin.get('data', '')}, {result['train_images']:,} training images of "
        f"{result['train_classes']:,} classes",
        "data fingerprint": f"`{result['data_fingerprint']}`",
        "protocol": result["protocol"],
        "epoch": result.get("chosen_epoch", result["epochs"]),
    }
    parts = ["## Training\n\n" + table(rows)]
    if "validation" in result:
        parts.append(
            "Validation classes, by which the epoch was chosen (not comparable with the test: the "
            "fewer classes, the higher the score):\n\n" + scores(result["validation"], {})
        )
    if "test" in result:
        parts.append(
            f"## Scores\n\nOne test on {result['test_images']:,} images of "
            f"{result['test_classes']:,} classes that the network has not seen"
            + ("; 95 % intervals by bootstrap over queries.\n\n" if intervals else ".\n\n")
            + scores(result["test"], intervals)
        )
    return parts


def scores(found: dict[str, float], intervals: dict[str, Any]) -> str:
    """One row per metric."""
    rows = {}
    for name, value in found.items():
        low, high = intervals.get(name, (None, None))
        rows[name] = f"{value:.4f}" + (f" [{low:.4f}, {high:.4f}]" if low is not None else "")
    return table(rows)


def table(rows: dict[str, Any]) -> str:
    """Names and values as Markdown."""
    cells = ((name, str(value).replace("|", "\\|")) for name, value in rows.items())
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in cells)
