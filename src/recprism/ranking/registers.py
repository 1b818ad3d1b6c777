"""The few words the CPU engine needs and numba has not: sums in vector registers, the bits of a float, the lowest bit.

Each is a sequence of instructions that numba puts into the functions that use it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba.core import cgutils, config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from recprism._compile import compiled_unchecked as compiled

# Users in a group, and vectors of items in a panel. Their sums are GROUP * VECTORS registers and leave some for the
# operands: 24 of 32 with AVX-512, 12 of 16 with AVX2.
_FEATURES = getattr(config, "CPU_FEATURES", None) or binding.get_host_cpu_features().flatten()
LANES, GROUP, VECTORS = (16, 8, 3) if "+avx512f" in _FEATURES else (8, 4, 3)
PANEL = LANES * VECTORS  # items in a panel, below 64: each has a bit in a mask

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_new_intrinsic: Any = intrinsic
_build: Any = cgutils
Floats = NDArray[np.float32]


def panels_of(item: Floats) -> Floats:
    """(n_items, d) -> (n_panels, d, PANEL), zeros behind the last item."""
    n_items, dim = item.shape
    panels = np.zeros((-(-n_items // PANEL), dim, PANEL), np.float32)
    _fill_panels(item, panels)
    return panels


@compiled
def _fill_panels(item: Floats, panels: Floats) -> None:
    for row in range(item.shape[0]):
        for factor in range(item.shape[1]):
            panels[row // PANEL, factor, row % PANEL] = item[row, factor]


@compiled
def fill_groups(user: Floats, vectors: Floats) -> None:
    """(n_users, d) -> (n_groups, d, GROUP)."""
    for slot in range(user.shape[0]):
        for factor in range(user.shape[1]):
            vectors[slot // GROUP, factor, slot % GROUP] = user[slot, factor]


def _tile_type(
    _context: Any,
    vectors: Any,
    panels: Any,
    allowed: Any,
    bars: Any,
    scores: Any,
    hits: Any,
    _group: Any,
    _panel: Any,
    _dim: Any,
    _block: Any,
) -> Any:
    """Score a group of users against a panel of items; bit r of the result says that user r of the group has a hit.

    vectors: (block / GROUP, dim, GROUP), panels: (n_panels, dim, PANEL), bars: (block,), float32
    allowed: (n_panels, block) uint64, bit i: the user may be given item i of the panel
    scores: (GROUP, PANEL) float32, filled
    hits: (GROUP,) uint64, filled; bit i: item i is allowed and its score lies above the user's bar
    """
    arrays = vectors, panels, allowed, bars, scores, hits
    return types.uint64(*arrays, *[types.intp] * 4), _emit_tile


def _emit_tile(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    vectors, panels, allowed, bars, scores, hits = (
        context.make_array(signature.args[at])(context, builder, args[at]).data for at in range(6)
    )
    group, panel, dim, block = args[6:]
    slot = builder.mul(group, _WORD(GROUP))
    sums = _emit_sums(
        builder,
        dim,
        _at(builder, vectors, builder.mul(slot, dim)),
        _at(builder, panels, builder.mul(builder.mul(panel, dim), _WORD(PANEL))),
    )
    masks = _at(builder, allowed, builder.add(builder.mul(panel, block), slot))
    return _emit_hits(builder, sums, _at(builder, bars, slot), masks, scores, hits)


def _emit_sums(builder: Any, dim: Any, vectors: Any, panel: Any) -> Any:
    """One register for every user and vector of items: the chain of multiply-adds over the factors."""
    shape = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    multiply_add = _build.get_or_insert_function(builder.module, shape, f"llvm.fmuladd.v{LANES}f32")
    places = [(row, column) for row in range(GROUP) for column in range(VECTORS)]
    sums = {place: _build.alloca_once(builder, _VECTOR) for place in places}
    for total in sums.values():
        builder.store(_VECTOR([0.0] * LANES), total)
    with _build.for_range(builder, dim) as factor:
        of_items = _at(builder, panel, builder.mul(factor.index, _WORD(PANEL)))
        of_users = _at(builder, vectors, builder.mul(factor.index, _WORD(GROUP)))
        items = [builder.load(_vector_at(builder, of_items, column), align=4) for column in range(VECTORS)]
        users = [_in_all_lanes(builder, of_users, row) for row in range(GROUP)]
        for row, column in places:
            total = builder.load(sums[row, column])
            total = builder.call(multiply_add, [users[row], items[column], total])
            builder.store(total, sums[row, column])
    return sums


def _emit_hits(builder: Any, sums: Any, bars: Any, allowed: Any, scores: Any, hits: Any) -> Any:
    """Write scores and masks; the result has a bit for every user with a hit."""
    users_with_hits = _WORD(0)
    for row in range(GROUP):
        bar = _in_all_lanes(builder, bars, row)
        mask = _WORD(0)
        for column in range(VECTORS):
            total = builder.load(sums[row, column])
            builder.store(total, _vector_at(builder, scores, row * VECTORS + column), align=4)
            above = builder.bitcast(builder.fcmp_ordered(">", total, bar), ir.IntType(LANES))
            mask = builder.or_(mask, builder.shl(builder.zext(above, _WORD), _WORD(column * LANES)))
        mask = builder.and_(mask, builder.load(_at(builder, allowed, _WORD(row))))
        builder.store(mask, _at(builder, hits, _WORD(row)))
        any_hit = builder.zext(builder.icmp_unsigned("!=", mask, _WORD(0)), _WORD)
        users_with_hits = builder.or_(users_with_hits, builder.shl(any_hit, _WORD(row)))
    return users_with_hits


def _at(builder: Any, base: Any, offset: Any) -> Any:
    return builder.gep(base, [offset])


def _vector_at(builder: Any, base: Any, index: int) -> Any:
    return builder.bitcast(_at(builder, base, _WORD(index * LANES)), _VECTOR.as_pointer())


def _in_all_lanes(builder: Any, base: Any, index: int) -> Any:
    number = builder.load(_at(builder, base, _WORD(index)))
    nothing = _VECTOR(ir.Undefined)
    first_lane = ir.VectorType(ir.IntType(32), LANES)([0] * LANES)
    return builder.shuffle_vector(builder.insert_element(nothing, number, _WORD(0)), nothing, first_lane)


def _bits_type(_context: Any, _number: Any) -> Any:
    """The bits of a float32 as an int32."""
    return types.int32(types.float32), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.IntType(32))


def _float_type(_context: Any, _bits: Any) -> Any:
    """The float32 that has the bits of an int32."""
    return types.float32(types.int32), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.FloatType())


def _lowest_bit_type(_context: Any, _mask: Any) -> Any:
    """The number of the lowest bit that is set; the mask must have one."""
    return types.uint64(types.uint64), lambda _c, builder, _s, args: builder.cttz(args[0], ir.IntType(1)(1))


score_tile = _new_intrinsic(_tile_type)
bits_of = _new_intrinsic(_bits_type)
float_of = _new_intrinsic(_float_type)
lowest_bit = _new_intrinsic(_lowest_bit_type)
