import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def caffe_bn_inception() -> ModuleType:
    """The file of ``pretrainedmodels`` alone: the package itself imports more than it declares."""
    package = importlib.util.find_spec("pretrainedmodels")
    assert package is not None, "the oracle 'pretrainedmodels' comes with `make install`"
    path = Path(package.submodule_search_locations[0]) / "models" / "bninception.py"
    spec = importlib.util.spec_from_file_location("caffe_bn_inception", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def randomised(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A state dict in which batch norm's statistics and affine weights matter."""
    state = {}
    for name, value in network.state_dict().items():
        if name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(7)
        elif name.endswith("running_var") or (value.dim() == 1 and name.endswith("weight")):
            state[name] = torch.rand_like(value) + 0.5
        elif value.dim() == 1:
            state[name] = torch.randn_like(value) * 0.1
        else:
            state[name] = value.clone()
    return state


@pytest.fixture
def random_state():
    return randomised
