"""``lookalike export``: write a trained model for other programs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.console import AsJson

ENDINGS = {"onnx": ".onnx", "torchscript": ".pt", "safetensors": ""}


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run or of an exported model.")],
    to: Annotated[str, typer.Option(help="onnx, torchscript or safetensors.")] = "onnx",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file (a folder for safetensors).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as ONNX, TorchScript or safetensors, checked, with a model card.

    Example: lookalike export runs/folder-multi-similarity-0123456789ab --to onnx -o shop.onnx
    """
    from lookalike.inference.export import export as write
    from lookalike.inference.export import model_of

    target = output or Path(f"{run.resolve().name}-model{ENDINGS.get(to, '')}")
    least = write(model_of(run), to, target)
    if as_json:
        print(json.dumps({"model": str(target), "format": to, "cosine": least}))
    else:
        print(f"{target}: {to}, smallest cosine with the original {least:.6f}")
