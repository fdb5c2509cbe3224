"""Losses of other packages in a training step of ours."""

from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.losses.base import Loss, PairLoss
from lookalike.miners.mined import index_tuple
from lookalike.relations import Relations

__all__ = ["as_loss"]


class _OtherLoss(PairLoss):
    """A loss that is called as PML's: embeddings, labels and, where a miner chose, indices."""

    reads_triplets = True

    module: nn.Module

    def compute(self, relations: Relations) -> Tensor:
        """What the module says of the embeddings."""
        r = relations
        if r.ref_emb is None:
            chosen = (index_tuple(r),) if r.mined else ()
            return self.module(r.embeddings, r.labels, *chosen)  # type: ignore[no-any-return]
        # its own copy in a memory is no pair of an image
        indices = index_tuple(r) if r.mined or not r.all_valid else None
        return self.module(  # type: ignore[no-any-return]
            r.embeddings, r.labels, indices, r.ref_emb, r.ref_labels
        )


def as_loss(module: nn.Module) -> Loss:
    """One of our losses as it is; one of another package (PML) in an adapter."""
    if not callable(module):
        raise BadInput(
            f"a loss must be a torch.nn.Module or a function, not {type(module).__name__}"
        )
    return module if isinstance(module, Loss) else _OtherLoss(module)
