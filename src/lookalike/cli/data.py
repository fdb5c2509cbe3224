"""d."""
import typer
data = typer.Typer()
@data.command()
def check() -> None:
    """x."""
@data.command()
def prepare() -> None:
    """x."""
