"""``lookalike export``: write a trained model for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.console import AsJson, print_result

ENDINGS = {"onnx": ".onnx", "torchscript": ".pt", "safetensors": ""}


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run or of an exported model.")],
    to: Annotated[str, typer.Option(help="onnx, torchscript or safetensors.")] = "onnx",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file (a folder for safetensors).")
    ] = None,
    to_hub: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Put it on the Hugging Face hub instead."),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="A new repository on the hub is for everyone.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as ONNX, TorchScript or safetensors, checked, with a model card.

    Example: lookalike export runs/folder-multi-similarity-0123456789ab --to onnx -o shop.onnx

    Example: lookalike export runs/latest --to-hub me/shop

    'hub:me/shop' then names the model wherever a run does: in index, search and export.
    """
    from lookalike.inference.export import export as write
    from lookalike.inference.export import model_of

    if to_hub is not None:
        from lookalike.inference.hub import to_hub as upload

        address = upload(model_of(run), to_hub, private=not public)
        print_result({"address": address}, address, as_json)
        return
    target = output or Path(f"{run.resolve().name}-model{ENDINGS.get(to, '')}")
    least = write(model_of(run), to, target)
    told = f"{target}: {to}, smallest cosine with the original {least:.6f}"
    print_result({"model": str(target), "format": to, "cosine": least}, told, as_json)
