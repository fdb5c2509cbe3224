"""A network cut in two behind one of its modules: the front is frozen, the rest learns.

The front is run once per image and its output is stored. The rest is the network's own ``forward``
on one blank image, in which the modules of the front return constants, and the named module returns
the stored maps. So every network can be cut where all data pass through one module, whatever its
code is like, and its weights keep their names. (A forward hook that replaces the output of the
named module needs less code, but then the front runs on the blank image: steps behind ``layer3`` of
a ResNet-50 took 1.12 times as long, batch 32 at 128 px.)

Where pixels are mixed, or new views are wanted every time, nothing is stored: images pass the
frozen front every time, and the same parameters learn.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from lookalike.errors import BadInput, did_you_mean
from lookalike.models.backbone import Backbone

MARK = "frozen_until"
"""The module inserted at the cut of a traced network, which calls its layers one by one."""


class CutBackbone(Backbone):
    """The part of a backbone behind one module: maps -> feature map [B, width, h, w].

    :meth:`front` computes the maps from images. The front has no gradient and is always in
    evaluation mode. The weights are those of ``whole``, by the same names. With ``stored=False``
    the input is images, which pass the frozen front every time; the same parameters learn.

    Args:
        whole: The backbone to cut.
        until: The last module of the front, as ``named_modules`` calls it.
        image_shape: The shape [channels, H, W] of the images.
        stored: Whether the input is maps of the front, or images.

    Raises:
        BadInput: There is no such module, or the network cannot be cut behind it.
    """

    def __init__(
        self, whole: Backbone, until: str, image_shape: tuple[int, ...], *, stored: bool = True
    ) -> None:
        super().__init__(
            whole.network,
            width=whole.width,
            normalisation=whole.normalisation,
            prefix_tokens=whole.prefix_tokens,
            image_size=whole.image_size,
            run=whole.run,
            steps=whole.steps,
        )
        self.own_pooling = whole.own_pooling
        training = whole.training
        whole.eval()
        self.blank = torch.zeros(1, *image_shape).to(next(whole.parameters()))
        self.until = until
        self.stored = stored
        if isinstance(self.network, GraphModule):
            self.until = insert_mark(self.network, self.steps, until)
        calls: Counter[str] = Counter()
        outputs: dict[str, Any] = {}

        def record(name: str, output: Any) -> None:
            calls[name] += 1
            if self.until not in outputs:
                outputs[name] = output

        with hooks_on(dict(self.network.named_modules()), record), torch.enable_grad():
            whole(self.blank)
        at_cut = outputs.get(self.until)
        if calls[self.until] != 1 or not isinstance(at_cut, Tensor):
            raise no_such_place(until, (name for name in calls if name.count(".") < 2))
        self.in_front = frozenset(name for name in outputs if calls[name] == 1)
        self.constants = {
            name: output.detach() if isinstance(output, Tensor) else output
            for name, output in outputs.items()
            if name in self.in_front
            and not any(name.startswith(f"{outer}.") for outer in self.in_front)
        }
        self._freeze_front(whole, until, parameters_of(at_cut, self.network))
        self.train(training)

    def front(self, images: Tensor) -> Tensor:
        """The maps [B, ...] that the named module computes; the rest of the network is not run."""

        def stop(_name: str, output: Tensor) -> None:
            raise Reached(output)

        try:
            with hooks_on({self.until: self.network.get_submodule(self.until)}, stop):
                super().forward(images)
        except Reached as reached:
            output: Tensor = reached.args[0]
            return output
        raise AssertionError(f"'{self.until}' was called before")

    def forward(self, inputs: Tensor) -> Tensor:
        """The feature map before pooling, from the maps of :meth:`front` or from images."""
        # of images, autograd keeps nothing of the front, which has no gradients
        return self.rest(inputs) if self.stored else super().forward(inputs)

    def rest(self, maps: Tensor) -> Tensor:
        """The feature map before pooling, from the maps of :meth:`front`."""
        # a copy: the next layer may work in place
        with fixed_outputs(self.network, self.constants | {self.until: maps.clone()}):
            return super().forward(self.blank)

    def train(self, mode: bool = True) -> Self:
        """Training or evaluation mode behind the cut; evaluation mode in front of it."""
        super().train(mode)
        for name, module in self.network.named_modules():
            if name in self.in_front:
                module.training = False
        return self

    def _freeze_front(self, whole: Backbone, until: str, frozen: set[str]) -> None:
        """Freeze the front, and check that the two parts compute what the whole computes."""
        random = torch.Generator().manual_seed(0)
        images = torch.rand(2, *self.blank.shape[1:], generator=random).to(self.blank)
        with torch.no_grad():
            expected, maps = whole(images), self.front(images)
        try:
            # a traced network prints its errors
            with torch.enable_grad(), redirect_stderr(io.StringIO()):
                found = self.rest(maps)
        except (RuntimeError, ValueError, IndexError):  # the shapes of the parts do not match
            found = expected.new_empty(0)
        if found.shape != expected.shape or not torch.allclose(found, expected, 1e-3, 1e-4):
            raise BadInput(
                f"the network cannot be cut behind {until!r}, because other data go past this "
                "module; choose a whole block"
            )
        if shared := frozen & parameters_of(found, self.network):
            raise BadInput(
                f"the network cannot be cut behind {until!r}, because '{min(shared)}' is used on "
                "both sides of the cut"
            )
        for name in frozen:
            self.network.get_parameter(name).requires_grad_(False)


class Reached(Exception):
    """The cut was reached, with this output; nothing behind it has to be run."""


@contextmanager
def hooks_on(modules: Mapping[str, nn.Module], hook: Callable[[str, Any], None]) -> Iterator[None]:
    """Call ``hook(name, output)`` after each forward of the modules."""
    with ExitStack() as hooks:
        for name in filter(None, modules):
            hooks.enter_context(
                modules[name].register_forward_hook(lambda _m, _i, out, name=name: hook(name, out))
            )
        yield


@contextmanager
def fixed_outputs(network: nn.Module, outputs: Mapping[str, Any]) -> Iterator[None]:
    """Meanwhile the named modules return these outputs and compute nothing."""
    changed = [(network.get_submodule(name), output) for name, output in outputs.items()]
    former = [module.__dict__.get("forward") for module, _ in changed]
    for module, output in changed:
        module.forward = lambda *_args, _output=output, **_kwargs: _output
    try:
        yield
    finally:
        for (module, _), forward in zip(changed, former, strict=True):
            del module.forward
            if forward is not None:
                module.forward = forward


def parameters_of(output: Tensor, network: nn.Module) -> set[str]:
    """The names of the parameters that ``output`` was computed from."""
    weights = {name: p for name, p in network.named_parameters() if p.requires_grad}
    if output.grad_fn is None or not weights:
        return set()
    gradients = torch.autograd.grad(
        output.sum(), list(weights.values()), retain_graph=True, allow_unused=True
    )
    return {name for name, g in zip(weights, gradients, strict=True) if g is not None}


def insert_mark(network: GraphModule, steps: Mapping[str, str], until: str) -> str:
    """Insert an identity module behind the last node of module ``until``; its name."""
    network.add_module(MARK, nn.Identity())
    graphs: list[Any] = [network.train_graph, network.eval_graph]
    for graph in graphs:
        nodes = [n for n in graph.nodes if f"{steps.get(n.name, '')}.".startswith(f"{until}.")]
        if not nodes:
            paths = [name.split(".") for name in steps.values()]
            blocks = {".".join(p[:depth]) for p in paths for depth in (1, 2) if len(p) > depth}
            raise no_such_place(until, blocks)
        with graph.inserting_after(nodes[-1]):
            point = graph.call_module(MARK, (nodes[-1],))
        nodes[-1].replace_all_uses_with(point)
        point.args = (nodes[-1],)
    network.graph = graphs[0] if network.training else graphs[1]
    return MARK


def no_such_place(until: str, places: Iterable[str]) -> BadInput:
    """The error for a module that does not exist or does not return one map."""
    return BadInput(
        f"there is no module {until!r} behind which this network can be cut; "
        f"{did_you_mean(until, places)}"
    )
