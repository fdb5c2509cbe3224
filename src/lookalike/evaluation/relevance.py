"""Which gallery items are relevant to a query, and which are left out of its ranking."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import LabelArray
from lookalike.labels import Comparison, agreement

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RaggedArray:
    """One list of gallery items for each query, end to end: ``items[offsets[q]:offsets[q+1]]``."""

    offsets: Ints
    items: Ints

    @property
    def sizes(self) -> Ints:
        """How many items each query has."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> Ints:
        """The query (from 0) of each item."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.sizes)

    def of_query(self, query: int) -> Ints:
        """The items of one query."""
        return self.items[self.offsets[query] : self.offsets[query + 1]]

    def pairs(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The query and the item of each entry, as indices of a table on ``device``."""
        owners, items = torch.from_numpy(self.owners), torch.from_numpy(self.items)
        return owners.to(device), items.to(device)

    @staticmethod
    def of(owners: Ints, items: Ints, queries: int) -> "RaggedArray":
        """From pairs (query, item) in order of the queries."""
        offsets = np.zeros(queries + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=queries), out=offsets[1:])
        return RaggedArray(offsets, items)


class Relevance:
    """Relevant pairs by label, without the query itself and without the pairs to ignore.

    ``ignore`` is either one identity per item (for example a camera): a pair of the same label
    and the same identity is left out; or a table queries x gallery: True leaves the pair out.
    ``label_comparison`` says which labels agree, where not only equal ones do.
    """

    def __init__(
        self,
        labels: LabelArray,
        gallery_labels: LabelArray | None = None,
        ignore: NDArray[np.generic] | None = None,
        gallery_ignore: NDArray[np.generic] | None = None,
        label_comparison: Comparison | None = None,
    ) -> None:
        self.itself = gallery_labels is None
        gallery_labels = labels if gallery_labels is None else gallery_labels
        if labels.ndim != gallery_labels.ndim:
            raise BadInput("labels and gallery labels must both be multi-hot, or neither")
        self.queries, self.gallery = len(labels), len(gallery_labels)
        self._compared = label_comparison is not None
        self._agrees_with_itself = labels.ndim == 1 and not self._compared
        tables = _label_tables(labels, gallery_labels, label_comparison)
        self._of_query, self._of_gallery = tables
        self._mask, self._identities = self._checked(ignore, gallery_ignore)

    @property
    def symmetric(self) -> bool:
        """Whether (a, b) and (b, a) are always treated alike."""
        return self.itself and self._mask is None and not self._compared

    def count(self) -> Ints:
        """An upper bound of the relevant items of each query, without listing them."""
        total = np.asarray(self._of_query @ np.diff(self._of_gallery.indptr), np.int64)
        return np.minimum(total, self.gallery)

    def lists(self, start: int, stop: int) -> tuple[RaggedArray, RaggedArray]:
        """``lists_of`` the queries ``start`` to ``stop``."""
        return self.lists_of(np.arange(start, stop))

    def lists_of(self, chosen: Ints) -> tuple[RaggedArray, RaggedArray]:
        """The items relevant to the chosen queries, and those left out, ascending.

        Left out are all items that must not count as wrong answers: the relevant, the ignored
        and the query itself.
        """
        shared, number = self._of_query[chosen] @ self._of_gallery, len(chosen)
        shared.sort_indices()
        owners = np.repeat(np.arange(number), np.diff(shared.indptr))
        items = shared.indices.astype(np.int64)
        queries = chosen[owners]
        keep = items != queries if self.itself else np.ones(len(owners), bool)
        if self._identities is not None:
            of_query, of_gallery = self._identities
            keep &= of_query[queries] != of_gallery[items]
        if self._mask is not None:
            keep &= ~self._mask[queries, items]
        relevant = RaggedArray.of(owners[keep], items[keep], number)
        if self._mask is None and (self._agrees_with_itself or not self.itself):
            return relevant, RaggedArray.of(owners, items, number)
        left_out = [owners * self.gallery + items]
        if self.itself:  # an item that does not agree with itself is not in its own list
            left_out.append(np.arange(number) * self.gallery + chosen)
        if self._mask is not None:
            left_out.append(np.flatnonzero(self._mask[chosen]))
        pairs = np.unique(np.concatenate(left_out))
        return relevant, RaggedArray.of(pairs // self.gallery, pairs % self.gallery, number)

    def _checked(
        self,
        ignore: NDArray[np.generic] | None,
        gallery_ignore: NDArray[np.generic] | None,
    ) -> tuple[NDArray[np.bool_] | None, tuple[Ints, Ints] | None]:
        if ignore is None:
            if gallery_ignore is not None:
                raise BadInput("gallery_ignore needs ignore, the identities of the queries")
            return None, None
        if ignore.ndim == 2:
            if ignore.shape != (self.queries, self.gallery) or gallery_ignore is not None:
                raise BadInput(
                    f"an ignore table must be queries x gallery, {self.queries} x {self.gallery}, "
                    f"not {' x '.join(map(str, ignore.shape))}"
                )
            return ignore.astype(bool), None
        if self.itself:
            gallery_ignore = ignore
        if gallery_ignore is None:
            raise BadInput("with a gallery, ignore needs gallery_ignore too")
        if ignore.shape != (self.queries,) or gallery_ignore.shape != (self.gallery,):
            raise BadInput(
                f"ignore must have one identity per item: {self.queries} for the queries and "
                f"{self.gallery} for the gallery, not {ignore.shape} and {gallery_ignore.shape}"
            )
        codes = np.unique(np.concatenate([ignore, gallery_ignore]), return_inverse=True)[1]
        return None, (codes[: self.queries], codes[self.queries :])


def _label_tables(
    labels: LabelArray, gallery_labels: LabelArray, comparison: Comparison | None
) -> tuple[Any, Any]:
    """Which labels of the gallery each query agrees with, and which items have each label.

    Two items are relevant to each other where the product of these sparse matrices is not 0.
    """
    from scipy.sparse import csr_array

    if comparison is None and labels.ndim == 2:
        if labels.shape[1] != gallery_labels.shape[1]:
            raise BadInput(
                f"multi-hot labels have {labels.shape[1]} columns and those of the gallery "
                f"{gallery_labels.shape[1]}"
            )
        of_query, of_gallery = (csr_array(one, dtype=np.int32) for one in (labels, gallery_labels))
        return of_query, of_gallery.T.tocsr()
    # Each side apart: joining int64 and uint64 would pass through float64.
    axis = None if labels.ndim == 1 else 0
    own, own_codes = np.unique(labels, axis=axis, return_inverse=True)
    classes, codes = np.unique(gallery_labels, axis=axis, return_inverse=True)
    agree = _equal(own, classes) if comparison is None else _agreeing(own, classes, comparison)
    ones, items = np.ones(len(gallery_labels), np.int32), np.arange(len(gallery_labels))
    of_gallery = csr_array((ones, (codes.reshape(-1), items)), (len(classes), len(items)))
    return agree[own_codes.reshape(-1)], of_gallery


def _equal(own: LabelArray, classes: LabelArray) -> Any:
    """Which labels are the same, as a sparse matrix."""
    from scipy.sparse import csr_array

    if (own.dtype.kind in "biuf") != (classes.dtype.kind in "biuf"):
        raise BadInput("labels and gallery labels must both be numbers, or both strings")
    position = {label: code for code, label in enumerate(classes.tolist())}
    pairs = [(row, position[x]) for row, x in enumerate(own.tolist()) if x in position]
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
    return csr_array((np.ones(len(pairs), np.int32), (rows, columns)), (len(own), len(classes)))


def _agreeing(
    own: LabelArray, classes: LabelArray, comparison: Comparison, block: int = 1024
) -> Any:
    """Which labels agree as a function says, as a sparse matrix."""
    from scipy.sparse import csr_array, vstack

    others = torch.from_numpy(classes)
    parts = [
        csr_array((agreement(part, others, comparison) > 0).numpy(), dtype=np.int32)
        for part in torch.split(torch.from_numpy(own), block)
    ]
    return vstack(parts, format="csr")
