"""A network cut in two behind one of its modules: the front stands still, the rest learns.

The front is run once and its output is kept. The rest is the network's own ``forward`` on a blank
image, in which the modules in front give at once what they once gave for it, and the named module
gives the kept maps. So every network can be cut where all its data go through one module, whatever
its code is like, and its weights keep their names.
"""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from lookalike.errors import BadInput, did_you_mean
from lookalike.models.backbone import Backbone

__all__ = ["CutBackbone"]

MARK = "frozen_until"
"""The module put in at the cut of a traced network, which calls its layers one by one."""


class CutBackbone(Backbone):
    """What lies behind the module ``until`` of a backbone: maps -> feature map [B, width, h, w].

    :meth:`front` makes the maps from images of ``image_shape`` [channels, H, W]. The front has no
    gradient and runs as in evaluation. The weights are those of ``whole``, by the same names.
    """

    def __init__(self, whole: Backbone, until: str, image_shape: tuple[int, ...]) -> None:
        super().__init__(
            whole.network,
            width=whole.width,
            normalisation=whole.normalisation,
            prefix_tokens=whole.prefix_tokens,
            image_size=whole.image_size,
            run=whole.run,
            steps=whole.steps,
        )
        training = whole.training
        whole.eval()
        network, traced = self.network, isinstance(self.network, GraphModule)
        self.until = mark(network, self.steps, until) if isinstance(network, GraphModule) else until
        self.blank = torch.zeros(1, *image_shape).to(next(whole.parameters()))
        sightings = Sightings(self.network, self.until)
        with sightings.watched(), torch.enable_grad():
            whole(self.blank)
        if not isinstance(sightings.at_cut, Tensor):
            known = places(self.steps) if traced else sightings.places()
            raise BadInput(
                f"model.frozen_until = {until!r} is no module where this network can be cut; "
                f"{did_you_mean(until, known)}"
            )
        self.given = sightings.given
        self.in_front = sightings.finished
        self._refuse_unless_parted(whole, until, used_by(sightings.at_cut, self.network))
        self.train(training)

    def front(self, images: Tensor) -> Tensor:
        """The maps [B, ...] that the named module gives for images; what lies behind is not run."""

        def stop(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            raise Reached(output)

        handle = self.network.get_submodule(self.until).register_forward_hook(stop)
        try:
            super().forward(images)
        except Reached as reached:
            return reached.output
        finally:
            handle.remove()
        raise AssertionError(f"'{self.until}' was called before")

    def forward(self, maps: Tensor) -> Tensor:
        """The feature map before pooling, from what :meth:`front` gave."""
        # a copy: the next layer may work in place
        with answering(self.network, self.given | {self.until: maps.clone()}):
            return super().forward(self.blank)

    def train(self, mode: bool = True) -> Self:
        """Training or evaluation mode behind the cut; evaluation in front."""
        super().train(mode)
        for name, module in self.network.named_modules():
            if name in self.in_front:
                module.training = False
        return self

    def _refuse_unless_parted(self, whole: Backbone, until: str, frozen: set[str]) -> None:
        """Freeze the front, and make sure that the two parts are what the whole is."""
        random = torch.Generator().manual_seed(0)
        images = torch.rand(2, *self.blank.shape[1:], generator=random).to(self.blank)
        with torch.no_grad():
            expected, maps = whole(images), self.front(images)
        try:
            # a traced network prints what went wrong in it
            with torch.enable_grad(), redirect_stderr(io.StringIO()):
                found = self(maps)
        except (RuntimeError, ValueError, IndexError):  # parts that do not fit together
            found = expected.new_empty(0)
        if found.shape != expected.shape or not torch.allclose(found, expected, 1e-3, 1e-4):
            raise BadInput(
                f"model.frozen_until = {until!r}: other data go past this module, so that the "
                "network cannot be cut behind it; choose a whole block"
            )
        if shared := frozen & used_by(found, self.network):
            raise BadInput(
                f"model.frozen_until = {until!r}: '{min(shared)}' is used on both sides of the cut"
            )
        for name in frozen:
            self.network.get_parameter(name).requires_grad_(False)


class Reached(Exception):
    """The cut was reached; nothing behind it has to be run."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


class Sightings:
    """Which modules were called before the one called ``until`` had ended, and what they gave."""

    def __init__(self, network: nn.Module, until: str) -> None:
        self.network = network
        self.until = until
        self.calls: Counter[str] = Counter()
        self.outputs: dict[str, Any] = {}
        self.finished: frozenset[str] = frozenset()
        self.at_cut: Any = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look on while the network runs once."""

        def seen(name: str, output: Any) -> None:
            self.calls[name] += 1
            self.outputs[name] = output
            if name == self.until:
                self.finished = frozenset(self.outputs)
                self.at_cut = output

        handles = [
            module.register_forward_hook(lambda _m, _i, output, name=name: seen(name, output))
            for name, module in self.network.named_modules()
            if name
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        if self.calls[self.until] != 1:
            self.at_cut = None
        self.finished = frozenset(n for n in self.finished if self.calls[n] == 1)

    @property
    def given(self) -> dict[str, Any]:
        """What the outermost modules in front gave."""
        return {
            name: detached(self.outputs[name])
            for name in self.finished
            if not any(name.startswith(f"{other}.") for other in self.finished)
        }

    def places(self) -> list[str]:
        """Modules in sequence that give a map: the likely places to cut."""
        found = []
        waiting = list(self.network.named_children())
        while waiting:
            name, module = waiting.pop()
            if self.calls[name] == 1 and isinstance(self.outputs[name], Tensor):
                found.append(name)
            if isinstance(module, nn.Sequential | nn.ModuleList):
                waiting += [(f"{name}.{part}", child) for part, child in module.named_children()]
        return found


@contextmanager
def answering(network: nn.Module, answers: Mapping[str, Any]) -> Iterator[None]:
    """Meanwhile the named modules give these answers and compute nothing."""
    changed = [(network.get_submodule(name), answer) for name, answer in answers.items()]
    former = [module.__dict__.get("forward") for module, _ in changed]
    for module, answer in changed:
        module.forward = lambda *_args, _answer=answer, **_kwargs: _answer
    try:
        yield
    finally:
        for (module, _), forward in zip(changed, former, strict=True):
            del module.forward
            if forward is not None:
                module.forward = forward


def used_by(output: Tensor, network: nn.Module) -> set[str]:
    """The names of the weights that ``output`` was computed from."""
    weights = {name: p for name, p in network.named_parameters() if p.requires_grad}
    if output.grad_fn is None or not weights:
        return set()
    gradients = torch.autograd.grad(
        output.sum(), list(weights.values()), retain_graph=True, allow_unused=True
    )
    return {name for name, g in zip(weights, gradients, strict=True) if g is not None}


def detached(output: Any) -> Any:
    """Without the graph that it came from."""
    return output.detach() if isinstance(output, Tensor) else output


def mark(network: GraphModule, steps: Mapping[str, str], until: str) -> str:
    """Put a module that does nothing behind the last step of module ``until``; its name."""
    network.add_module(MARK, nn.Identity())
    graphs: list[Any] = [network.train_graph, network.eval_graph]
    for graph in graphs:
        last = last_step(graph, steps, until)
        if last is None:
            raise BadInput(
                f"model.frozen_until = {until!r} is no module where this network can be cut; "
                f"{did_you_mean(until, places(steps))}"
            )
        with graph.inserting_after(last):
            point = graph.call_module(MARK, (last,))
        last.replace_all_uses_with(point)
        point.args = (last,)
    network.graph = graphs[0] if network.training else graphs[1]
    return MARK


def last_step(graph: Graph, steps: Mapping[str, str], until: str) -> Node | None:
    """The last node of module ``until``."""
    found = None
    for node in graph.nodes:
        name = steps.get(node.name, "")
        if name == until or name.startswith(f"{until}."):
            found = node
    return found


def places(steps: Mapping[str, str]) -> Iterable[str]:
    """The modules of a traced network, and their parts."""
    paths = [name.split(".") for name in steps.values()]
    return {".".join(path[:depth]) for path in paths for depth in (1, 2) if len(path) > depth}
