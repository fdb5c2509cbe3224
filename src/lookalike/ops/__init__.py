"""Tensor operations that losses, miners and distances share.

Each is defined by a formula in plain torch. Where a hand-written pass is faster it stands beside
the formula, goes through :func:`lookalike.ops.fused.fused`, and is tested against it.
"""
