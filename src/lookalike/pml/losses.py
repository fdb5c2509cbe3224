"""``pytorch_metric_learning.losses``: everything of ``lookalike.losses``, called as PML's."""

from typing import TYPE_CHECKING

from lookalike import losses as core
from lookalike.arguments import Built
from lookalike.distances import Distance
from lookalike.pml import own_losses
from lookalike.pml.base_losses import BaseMetricLossFunction, GenericPairLoss
from lookalike.pml.distances import distance_of
from lookalike.pml.memory import CrossBatchMemory
from lookalike.pml.reducers import reducer_of
from lookalike.pml.shipped import OF_MODULES, Shipped, public_parts
from lookalike.reducers import Reducer

if TYPE_CHECKING:
    from lookalike.losses import *  # noqa: F403
    from lookalike.pml.own_losses import *  # noqa: F403

__all__ = ["BaseMetricLossFunction", "CrossBatchMemory", "GenericPairLoss"]
__all__ += core.__all__ + own_losses.__all__


class _OfLosses(Shipped):
    hooks = (
        "compute_loss _compute_loss mat_based_loss pair_based_loss pos_calc neg_calc "
        "get_per_pair_loss compute_density compute_loss_with_labels compute_loss_without_labels "
        "compute_reg_loss get_pairs nca_computation initialize_beta variance_with_eps "
        "covariance_loss invariance_loss variance_loss sigmoid update_histogram weigh_loss "
        "init_margin get_cosine get_angles get_cos_with_margin get_target_mask "
        "modify_cosine_of_target_classes scale_logits cast_types get_default_weight_init_func "
        "embedding_regularization_loss add_embedding_regularization_to_loss_dict "
        "weight_regularization_loss add_weight_regularization_to_loss_dict "
        "regularization_loss_names all_regularization_loss_names sub_loss_names _sub_loss_names "
        "zero_loss zero_losses set_reducer reset_stats set_stats _assert_either_pos_or_neg"
    )
    instead = "write terms(relations), or subclass BaseMetricLossFunction"
    arguments = OF_MODULES | {
        "distance": (Distance, Built(distance_of)),
        "reducer": (Reducer, Built(reducer_of)),
    }


for _room in (core, own_losses):
    globals().update(public_parts(_room, core.Loss, _OfLosses, __name__))
