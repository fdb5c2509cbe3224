"""Pair matrices: similarities, distances, who is compared with whom.

The one place that builds anchors x candidates matrices. Gradients are written out where that
saves work; nothing here waits for the device.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.labels import Labels, Overlap, agreement, as_tensor, can_sync

if TYPE_CHECKING:
    from lookalike.distances import Distance

__all__ = [
    "NOTHING",
    "PairList",
    "Relations",
    "above_zero",
    "at_places",
    "attach",
    "blocks_of_rows",
    "check_rows",
    "euclidean",
    "first_order_only",
    "in_full_precision",
    "in_row_blocks",
    "listed_pairs",
    "log_sum_exp",
    "mean_of_positive",
    "no_large_exponent",
    "picked",
    "products",
    "relate",
    "row_blocks",
    "soft_terms",
    "step",
    "unit",
    "violations",
    "weighted_mean",
    "without_rounding",
]


class Relations(NamedTuple):
    """Every anchor against every candidate.

    A loss reads ``same * valid`` as the weight of a pair as a positive, and ``(1 - same) * valid``
    as its weight as a negative.
    """

    similarity: Tensor
    """[anchors, candidates]; larger is closer (for a distance: minus the distance)."""
    same: Tensor
    """Float: 1 one class, 0 two, between: mixed or multi-label."""
    valid: Tensor
    """0: not a pair (itself, or dropped by a miner); else 1, or how often a miner named it."""
    among: Tensor | None = None
    """[candidates, candidates] similarities, for the losses that ask for them (``among``)."""
    lengths: Tensor | None = None
    """[anchors, 1] lengths of the anchors, for a loss that keeps them."""
    binary: bool = False
    """Whether no pair is a positive in part: ``positives`` and ``negatives`` are whole counts."""

    @property
    def whole(self) -> bool:
        """Whether every pair is valid (``valid`` is then one number, expanded)."""
        return self.valid.stride() == (0, 0)

    @property
    def positives(self) -> Tensor:
        """How much each pair counts as a positive."""
        return self.same if self.whole else self.same * self.valid

    @property
    def negatives(self) -> Tensor:
        """How much each pair counts as a negative."""
        if self.whole:
            return 1 - self.same
        if self.valid.dtype == torch.bool:
            return (1 - self.same) * self.valid
        return torch.addcmul(self.valid, self.same, self.valid, value=-1)

    @property
    def positive_counts(self) -> Tensor:
        """How often each pair counts in the number of positives: a label weighs its term only.

        A pair that is 30 % positive adds 0.3 of its term to a sum, but is one of the positives
        that the sum is divided by; dividing by the sum of labels would cancel them.
        """
        return self.positives if self.binary else self.valid * (self.same > 0)

    @property
    def negative_counts(self) -> Tensor:
        """How often each pair counts in the number of negatives."""
        return self.negatives if self.binary else self.valid * (self.same < 1)

    def mean_over_positives(self, values: Tensor, pairs: "PairList") -> Tensor:
        """``sum y v / number of positive pairs``, of values at ``listed_pairs(positives)``."""
        counts = pairs.weights if self.binary else at_places(self.positive_counts, pairs.places)
        return weighted_mean(values, pairs.weights, counts)

    def part(self, rows: slice) -> "Relations":
        """The relations of some anchors."""
        return Relations(
            self.similarity[rows], self.same[rows], self.valid[rows], binary=self.binary
        )

    @property
    def within(self) -> bool:
        """Whether the candidates are the anchors themselves."""
        return self.among is self.similarity


def relate(
    embeddings: Tensor,
    labels: Labels | None,
    ref_emb: Tensor | None = None,
    ref_labels: Labels | None = None,
    distance: "Distance | None" = None,
    overlap: Overlap = "any",
    *,
    self_pairs: bool = False,
    among: bool = False,
) -> Relations:
    """The relations of ``embeddings`` to themselves, or to ``ref_emb``.

    Without ``ref_emb`` (or when it is ``embeddings`` itself) an image is no candidate of its own,
    unless ``self_pairs``. ``distance`` defaults to the cosine. Half precision is raised to float32.
    ``labels`` may be None where a miner says which pairs are positive; ``same`` is then 0.

    >>> relate(torch.eye(2), torch.tensor([7, 7])).valid
    tensor([[0., 1.],
            [1., 0.]])
    """
    if distance is None:
        from lookalike.distances import CosineSimilarity

        distance = CosineSimilarity()
    check_rows(embeddings, None)
    if ref_emb is not None:
        check_rows(ref_emb, embeddings.shape[1], "ref_emb")
    anchors = in_full_precision(embeddings)
    alone = ref_emb is None or ref_emb is embeddings
    candidates = anchors if ref_emb is None or alone else in_full_precision(ref_emb)
    similarity = distance.similarity(anchors, None if alone else candidates)
    if labels is None:
        same = torch.zeros_like(similarity)
    else:
        same = _agreement(labels, None if alone else ref_labels, similarity, overlap, alone)
    if alone and not self_pairs:
        valid = torch.ones_like(similarity, requires_grad=False).fill_diagonal_(0)
    else:
        valid = similarity.new_ones(()).expand(similarity.shape)
    binary = overlap == "any"  # class numbers agree or not, whatever the overlap of rows is
    if alone:
        return Relations(similarity, same, valid, similarity, binary=binary)
    between = distance.similarity(candidates) if among else None
    return Relations(similarity, same, valid, between, binary=binary)


def _agreement(
    labels: Labels,
    ref_labels: Labels | None,
    similarity: Tensor,
    overlap: Overlap,
    alone: bool,
) -> Tensor:
    numbers: dict[str, int] = {}
    height, width = similarity.shape
    rows = as_tensor(labels, height, numbers).to(similarity.device)
    if ref_labels is None:
        if not alone:
            raise BadInput("ref_emb came without ref_labels; every embedding needs a label")
        return agreement(rows, rows, overlap, similarity.dtype)
    columns = as_tensor(ref_labels, width, numbers, "ref_labels").to(similarity.device)
    return agreement(rows, columns, overlap, similarity.dtype)


def check_rows(embeddings: Tensor, width: int | None, what: str = "embeddings") -> None:
    """Refuse embeddings that are not rows of ``width`` numbers (None: of any width).

    Args:
        embeddings: What should be a matrix [N, D].
        width: The D that is needed.
        what: What the error message calls them.

    Raises:
        BadInput: They have another shape or hold integers.
    """
    if embeddings.ndim != 2:
        raise BadInput(f"{what} must be rows, [N, D]; these are {tuple(embeddings.shape)}")
    if not embeddings.is_floating_point():
        raise BadInput(f"{what} must be floating-point numbers, not {embeddings.dtype}")
    if width is not None and embeddings.shape[1] != width:
        raise BadInput(f"{what} have {embeddings.shape[1]} columns, but {width} are needed")


def in_full_precision(values: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 unchanged."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def first_order_only() -> None:
    """Refuse a second derivative: gradients written out have none (cheaper than torch's check)."""
    if torch.is_grad_enabled():
        raise RuntimeError("these losses can be differentiated once only (no create_graph=True)")


def _unit_rows(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """The rows at length 1 and what they were multiplied by; a zero row stays zero, times 0.

    Rows that :func:`unit` made come back as they are, times nothing: a network whose embeddings
    have length 1 need not have them divided again.
    """
    if _made_by_unit(x):
        return x, None
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    inverse = length.reciprocal_().nan_to_num_(0, 0, 0)
    return x * inverse, inverse


def _made_by_unit(x: Tensor) -> bool:
    """Whether the last thing that happened to these rows is :func:`unit`."""
    return not torch.compiler.is_compiling() and isinstance(x.grad_fn, _Unit._backward_cls)


def _through_unit(gradient: Tensor, rows: Tensor, inverse: Tensor | None) -> Tensor:
    """The gradient of x, from that of x / |x|.

    Without ``inverse`` x is of length 1 already, and whatever made it takes out the part along it.
    """
    if inverse is None:
        return gradient
    along = (gradient * rows).sum(1, keepdim=True)
    return torch.addcmul(gradient, rows, along, value=-1).mul_(inverse)


class _Unit(torch.autograd.Function):
    """x / |x|."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        rows, inverse = _unit_rows(x)
        ctx.save_for_backward(rows, inverse)
        return rows

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        first_order_only()
        return _through_unit(gradient, *ctx.saved_tensors)


class _Products(torch.autograd.Function):
    """x y^T, of unit rows if asked for; y None is x, and costs one product on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor | None, unit_rows: bool) -> Tensor:
        (u, scale) = _unit_rows(x) if unit_rows else (x, None)
        (v, other) = (None, None) if y is None else _unit_rows(y) if unit_rows else (y, None)
        ctx.save_for_backward(u, v, scale, other)
        return u @ (u if v is None else v).T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        first_order_only()
        u, v, scale, other = ctx.saved_tensors
        if v is None:
            return _through_unit(_both_ways(gradient, u), u, scale), None, None
        return (
            _through_unit(gradient @ v, u, scale) if ctx.needs_input_grad[0] else None,
            _through_unit(gradient.T @ u, v, other) if ctx.needs_input_grad[1] else None,
            None,
        )


def _both_ways(matrix: Tensor, rows: Tensor) -> Tensor:
    """``(M + M^T) rows``; adding a large matrix to its transpose is slower than multiplying it."""
    if matrix.shape[0] <= 512:
        return (matrix + matrix.T) @ rows
    return torch.addmm(matrix @ rows, matrix.T, rows)


class _Euclidean(torch.autograd.Function):
    """``sign`` times |x - y| (or its square), from inner products; gradient 0 at distance 0."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor | None, unit_rows: bool, squared: bool, sign: float
    ) -> Tensor:
        (u, scale) = _unit_rows(x) if unit_rows else (x, None)
        (v, other) = (None, None) if y is None else _unit_rows(y) if unit_rows else (y, None)
        w = u if v is None else v
        if unit_rows:
            lengths = u.new_full((1, 1), 2)
        else:
            lengths = (u * u).sum(1, keepdim=True) + (w * w).sum(1)
        distance = torch.addmm(lengths, u, w.T, alpha=-2)
        distance = without_rounding(distance, 2.0 if unit_rows else lengths, u.shape[1])
        if not squared:
            distance.sqrt_()
        if sign != 1:
            distance.mul_(sign)
        ctx.unit_rows, ctx.squared, ctx.sign = unit_rows, squared, sign
        ctx.save_for_backward(u, v, scale, other, None if squared else distance)
        return distance

    @staticmethod
    def backward(
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        first_order_only()
        u, v, scale, other, distance = ctx.saved_tensors
        if ctx.squared:
            pull = gradient * (2 * ctx.sign)
        else:
            # the distance carries its sign; where it is 0 so is the gradient
            pull = (gradient / distance).nan_to_num_(0, 0, 0)
        # sum_j pull_ij (x_i - y_j); the part along x_i falls away when the length is fixed
        if v is None:
            moved = _both_ways(pull, u).neg_()
            if not ctx.unit_rows:
                moved.addcmul_(u, (pull.sum(1) + pull.sum(0)).unsqueeze(1))
            return _through_unit(moved, u, scale), None, None, None, None
        first = second = None
        if ctx.needs_input_grad[0]:
            first = (pull @ v).neg_()
            if not ctx.unit_rows:
                first.addcmul_(u, pull.sum(1, keepdim=True))
            first = _through_unit(first, u, scale)
        if ctx.needs_input_grad[1]:
            second = (pull.T @ u).neg_()
            if not ctx.unit_rows:
                second.addcmul_(v, pull.sum(0).unsqueeze(1))
            second = _through_unit(second, v, other)
        return first, second, None, None, None


def without_rounding(squared: Tensor, lengths: Tensor | float, dimension: int) -> Tensor:
    """Squared distances, those not larger than their own rounding error as 0 (with gradient 0).

    ``|x|^2 + |y|^2 - 2 x.y`` of two nearly equal rows is what rounding left of a difference of two
    large numbers: 0 on one processor, 1e-8 on another, and its root is 10,000 times larger. An
    inner product of ``dimension`` terms is off by up to about ``sqrt(dimension)`` units in the last
    place of ``lengths``, which is ``|x|^2 + |y|^2``.

    >>> without_rounding(torch.tensor([1e-7, 0.5]), 2.0, 128)
    tensor([0.0000, 0.5000])
    """
    bound = lengths * (torch.finfo(squared.dtype).eps * (4 + dimension**0.5))
    if isinstance(bound, Tensor):
        return squared.where(squared > bound, 0)
    return torch.threshold(squared, bound, 0)


class _Attach(torch.autograd.Function):
    """A value whose gradient is already known."""

    @staticmethod
    def forward(ctx: Any, _: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        first_order_only()
        (known,) = ctx.saved_tensors
        if gradient.ndim:
            return known * gradient.unsqueeze(1), None, None
        if can_sync(gradient) and gradient.item() == 1:  # as it is at the end of a step
            return known, None, None
        return known * gradient, None, None


def attach(similarity: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """``value`` as a function of ``similarity``, with this gradient.

    The value is one number, or one for each row. For losses that get value and gradient in one
    pass without a tape.
    """
    attached: Tensor = _Attach.apply(similarity, value, gradient)
    return attached


def unit(x: Tensor) -> Tensor:
    """Rows of length 1 (zero rows stay zero, with zero gradient)."""
    rows: Tensor = _Unit.apply(x)
    return rows


def products(x: Tensor, y: Tensor | None = None, *, unit_rows: bool = False) -> Tensor:
    """All inner products of the rows of ``x`` with those of ``y``, or with one another."""
    found: Tensor = _Products.apply(x, y, unit_rows)
    return found


def euclidean(
    x: Tensor,
    y: Tensor | None = None,
    *,
    unit_rows: bool = False,
    squared: bool = False,
    sign: float = 1,
) -> Tensor:
    """All Euclidean distances of the rows, from inner products: |x|^2 + |y|^2 - 2 x.y."""
    found: Tensor = _Euclidean.apply(x, y, unit_rows, squared, sign)
    return found


def step(values: Tensor) -> Tensor:
    """1 above zero, 0 elsewhere, as numbers; overwrites ``values`` (faster than truth values)."""
    return values.mul_(torch.finfo(values.dtype).max).clamp_(0, 1)


def above_zero(values: Tensor) -> Tensor:
    """``step`` that leaves ``values`` as they are."""
    return (values * torch.finfo(values.dtype).max).clamp_(0, 1)


def soft_terms(
    values: Tensor,
    weights: Tensor,
    *,
    scale: float = 1,
    shift: float = 0,
    plus_one: bool = False,
) -> tuple[Tensor, Tensor]:
    """``log_sum_exp`` [rows, 1] and each term's share of the sum, without gradient.

    The shares, times ``scale``, are the slopes of the logarithm. Where no exponent is large (on the
    CPU one look tells) the sum is taken as it stands, else relative to each row's largest term.
    """
    if no_large_exponent(values, scale, shift):
        return _plain_soft_terms(values, weights, scale, shift, plus_one)
    terms = torch.empty(values.shape, dtype=values.dtype, device=values.device)
    tops, totals = values.new_empty(2, values.shape[0], 1)
    size = max(1, _IN_CACHE // max(1, values.shape[1]))
    if size >= values.shape[0]:
        _soft_block(values, weights, terms, tops, totals, scale, shift, plus_one)
    else:
        for at in range(0, values.shape[0], size):
            rows = slice(at, at + size)
            outputs = terms[rows], tops[rows], totals[rows]
            _soft_block(values[rows], weights[rows], *outputs, scale, shift, plus_one)
    return totals.log_().add_(tops), terms


def no_large_exponent(values: Tensor, scale: float, *shifts: float) -> bool:
    """Whether e^(scale (v - shift)) and the sum of a row are far from the ends of the numbers.

    For every one of ``shifts``, and for minus ``scale`` too.
    """
    if not can_sync(values) or values.numel() == 0:
        return False
    ends = [end.item() for end in values.aminmax()]
    return all(abs(scale * (end - shift)) < _PLAIN for end in ends for shift in shifts)


def _plain_soft_terms(
    values: Tensor, weights: Tensor, scale: float, shift: float, plus_one: bool
) -> tuple[Tensor, Tensor]:
    """``soft_terms`` without a look for the largest term of each row."""
    terms = values * scale
    if shift:
        terms.sub_(scale * shift)
    terms.exp_().mul_(weights)
    total = terms.sum(1, keepdim=True)
    if plus_one:
        logarithm = total.log1p()
        total.add_(1)
    else:
        logarithm = total.log().clamp_min_(-_FAR)
    terms.div_(total.clamp_min_(torch.finfo(total.dtype).tiny))
    return logarithm, terms


def _soft_block(
    values: Tensor,
    weights: Tensor,
    terms: Tensor,
    top: Tensor,
    total: Tensor,
    scale: float,
    shift: float,
    plus_one: bool,
) -> None:
    """Fill ``terms`` with shares, ``top`` and ``total`` with what the logarithm is made of."""
    torch.mul(values, scale, out=terms)
    # pushed out of sight where the weight is 0; cheaper than masks, and never log(0)
    terms.add_(weights.sign().sub_(1), alpha=_FAR)
    torch.amax(terms, 1, keepdim=True, out=top)
    one = scale * shift  # where the exponents are 0
    if plus_one:
        top.clamp_min_(one)
    terms.sub_(top).clamp_min_(NOTHING).exp_().mul_(weights)
    torch.sum(terms, 1, keepdim=True, out=total)
    if plus_one:
        total.add_((one - top).clamp_min_(NOTHING).exp_())
    terms.div_(total.clamp_min_(torch.finfo(total.dtype).tiny))
    if one:
        top.sub_(one)


class _LogSumExp(torch.autograd.Function):
    """log(sum_j w_j e^(scale (v_j - shift))) per row, plus 1 inside if asked for."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, weights: Tensor, scale: float, shift: float, plus_one: bool
    ) -> Tensor:
        summed, share = soft_terms(values, weights, scale=scale, shift=shift, plus_one=plus_one)
        ctx.scale = scale
        ctx.save_for_backward(share)
        return summed.squeeze(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        first_order_only()
        (share,) = ctx.saved_tensors
        return share * (gradient * ctx.scale).unsqueeze(1), None, None, None, None


_IN_CACHE = 1 << 17  # numbers worked on at a time, so that they stay near the processor
_FAR = 1e30  # beyond every logit; finite, because inf - inf is not a number
_PLAIN = 50.0  # exponents up to here need no care: e^50 times a million is 5e27
NOTHING = -80.0  # e^-80 adds nothing to a sum whose largest term is 1, and is no denormal


def log_sum_exp(
    values: Tensor,
    weights: Tensor,
    *,
    scale: float = 1,
    shift: float = 0,
    plus_one: bool = False,
) -> Tensor:
    """``log(sum_j w_j e^(scale (v_j - shift)))`` per row; weight 0 leaves a term out.

    ``plus_one`` adds 1 to the sum. A row without terms is then 0; without ``plus_one`` it is far
    below every logit (-1e30), as the log of nothing should be. Its gradient is 0.

    >>> log_sum_exp(torch.zeros(1, 3), torch.ones(1, 3)).exp().round(decimals=4)
    tensor([3.])
    """
    if weights.stride() == (0, 0) and not plus_one:
        return ((values - shift) * scale).logsumexp(1)
    summed: Tensor = _LogSumExp.apply(values, weights, scale, shift, plus_one)
    return summed


def violations(
    values: Tensor, weights: Tensor, counts: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the values above zero: their weighted sum, their weights, and how many they are.

    ``counts`` says how often each value counts; None is its weight. Overwrites ``values``.
    """
    above = values.relu_().sign()
    number = None if counts is None else torch.dot(above.view(-1), counts.reshape(-1))
    weighed = above.mul_(weights)
    total = torch.dot(values.view(-1), weighed.view(-1))
    return total, weighed, weighed.sum() if number is None else number


def row_blocks(relations: Relations) -> list[slice]:
    """The blocks in which these relations are worked on."""
    return blocks_of_rows(*relations.similarity.shape)


def blocks_of_rows(rows: int, columns: int) -> list[slice]:
    """All rows of such a matrix, or, where it is large, as many as stay near the processor."""
    if rows * columns <= 4 * _IN_CACHE or torch.compiler.is_compiling():
        return [slice(0, rows)]
    size = max(1, _IN_CACHE // columns)
    return [slice(at, min(at + size, rows)) for at in range(0, rows, size)]


def in_row_blocks(
    relations: Relations, terms: Callable[[Relations], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """``terms`` of all rows: values [rows, n] and slopes, each row for itself, without gradient."""
    known = relations._replace(similarity=relations.similarity.detach())
    blocks = row_blocks(known)
    if len(blocks) == 1:
        return terms(known)
    values = []
    slopes = torch.empty_like(known.similarity)
    for rows in blocks:
        found, slopes[rows] = terms(known.part(rows))
        values.append(found)
    return torch.cat(values), slopes


def mean_of_positive(values: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean of the values above zero; 0 where there is none."""
    with torch.no_grad():
        known = values.detach()
        counted = above_zero(known).mul_(weights)
        count = counted.sum().clamp_min_(torch.finfo(values.dtype).tiny)
        value = (known * counted).sum() / count
    return attach(values, value, counted.div_(count))


def weighted_mean(values: Tensor, weights: Tensor, counts: Tensor | None = None) -> Tensor:
    """``sum w v / sum of counts`` (counts None: the weights); 0 where nothing counts."""
    number = (weights if counts is None else counts).sum()
    return (values * weights).sum() / number.clamp_min(torch.finfo(values.dtype).tiny)


class PairList(NamedTuple):
    """Pairs one by one: their row, their place in the flattened matrix, their weight."""

    rows: Tensor
    places: Tensor
    weights: Tensor

    def columns(self, matrix: Tensor) -> Tensor:
        """Their columns in a matrix of this width."""
        return self.places - self.rows * matrix.shape[1]


def listed_pairs(weights: Tensor) -> PairList:
    """The pairs that have a weight, in order.

    On the CPU only those; elsewhere all pairs, so that nothing waits for the device.
    """
    flat = weights.reshape(-1)
    if can_sync(weights):
        places = flat.nonzero().squeeze(1)
        return PairList(
            places.div(weights.shape[1], rounding_mode="floor"),
            places,
            flat.index_select(0, places),
        )
    places = torch.arange(flat.numel(), device=weights.device)
    return PairList(places // weights.shape[1], places, flat)


def at_places(matrix: Tensor, places: Tensor) -> Tensor:
    """The numbers at these places of the flattened matrix, with a fast way back."""
    return matrix.reshape(-1).index_select(0, places)


def picked(matrix: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``matrix[rows, columns]``, with a fast way back."""
    return at_places(matrix, rows * matrix.shape[1] + columns)
