"""Operations that numba lacks: sums in vector registers, the bits of a float, the lowest bit of a mask.

Each is a sequence of instructions that numba inserts into the functions that use it.
"""

from __future__ import annotations

import platform
from functools import reduce
from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba.core import cgutils, config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from recprism.common.compile import compiled_unchecked as compiled

# Users in a group, and vectors of items in a panel. Their sums use GROUP * VECTORS registers and leave some for the
# operands: 24 of 32 with AVX-512 and with NEON, 12 of 16 with AVX2. The bits of the scores are the same in all cases.
_FEATURES = getattr(config, "CPU_FEATURES", None) or binding.get_host_cpu_features().flatten()
_NEON = platform.machine().lower() in ("aarch64", "arm64")
LANES, GROUP, VECTORS = (4, 4, 6) if _NEON else (16, 8, 3) if "+avx512f" in _FEATURES else (8, 4, 3)
PANEL = LANES * VECTORS  # items in a panel, below 64: each has a bit in a mask

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_new_intrinsic: Any = intrinsic
_build: Any = cgutils
Floats = NDArray[np.float32]


def panels_of(item: Floats) -> Floats:
    """``(n_items, d)`` -> ``(n_panels, d, PANEL)``, with zeros after the last item."""
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
    """``(n_users, d)`` -> ``(n_groups, d, GROUP)``."""
    for slot in range(user.shape[0]):
        for factor in range(user.shape[1]):
            vectors[slot // GROUP, factor, slot % GROUP] = user[slot, factor]


def _scores_type(_context: Any, vectors: Any, panels: Any, scores: Any, _group: Any, _panel: Any, _dim: Any) -> Any:
    """Score a group of users against a panel of items.

    Args:
        vectors: ``(block / GROUP, dim, GROUP)`` float32.
        panels: ``(n_panels, dim, PANEL)`` float32.
        scores: ``(GROUP, PANEL)`` float32, filled.
    """
    return types.void(vectors, panels, scores, *[types.intp] * 3), _emit_scores


def _emit_scores(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    vectors, panels, scores = _data_of(context, builder, signature, args, 3)
    sums = _emit_sums(builder, vectors, panels, *args[3:])
    for row in range(GROUP):
        _store_scores(builder, sums, row, scores)
    return context.get_dummy_value()


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
    """Find the allowed items that score above the bars of a group of users.

    Args:
        vectors: ``(block / GROUP, dim, GROUP)`` float32.
        panels: ``(n_panels, dim, PANEL)`` float32.
        allowed: ``(n_panels, block)`` uint64. Bit i: item i of the panel is allowed for the user.
        bars: ``(block,)`` float32.
        scores: ``(GROUP, PANEL)`` float32, filled for the users with a hit.
        hits: ``(GROUP,)`` uint64, filled for the users with a hit. Bit i: item i is allowed and above the user's bar.

    Returns:
        A uint64. Bit r: user r of the group has a hit.
    """
    arrays = vectors, panels, allowed, bars, scores, hits
    return types.uint64(*arrays, *[types.intp] * 4), _emit_tile


def _emit_tile(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    vectors, panels, allowed, bars, scores, hits = _data_of(context, builder, signature, args, 6)
    group, panel, dim, block = args[6:]
    slot = builder.mul(group, _WORD(GROUP))
    sums = _emit_sums(builder, vectors, panels, group, panel, dim)
    masks = _at(builder, allowed, builder.add(builder.mul(panel, block), slot))
    emit = _emit_hits_neon if _NEON else _emit_hits
    return emit(builder, sums, _at(builder, bars, slot), masks, scores, hits)


def _data_of(context: Any, builder: Any, signature: Any, args: Any, count: int) -> list[Any]:
    """Return the data pointers of the first arguments, which are arrays."""
    return [context.make_array(signature.args[at])(context, builder, args[at]).data for at in range(count)]


def _emit_sums(builder: Any, all_vectors: Any, panels: Any, group: Any, panel_number: Any, dim: Any) -> Any:
    """Compute one register for every user and vector of items: a chain of multiply-adds over the factors."""
    vectors = _at(builder, all_vectors, builder.mul(builder.mul(group, _WORD(GROUP)), dim))
    panel = _at(builder, panels, builder.mul(builder.mul(panel_number, dim), _WORD(PANEL)))
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
        users = _users_in_all_lanes(builder, of_users)
        for row, column in places:
            total = builder.load(sums[row, column])
            total = builder.call(multiply_add, [users[row], items[column], total])
            builder.store(total, sums[row, column])
    return sums


def _emit_hits(builder: Any, sums: Any, bars: Any, allowed: Any, scores: Any, hits: Any) -> Any:
    """Write scores and masks; return a bit for every user with a hit."""
    users_with_hits = _WORD(0)
    for row in range(GROUP):
        bar = _in_all_lanes(builder, bars, row)
        mask = _WORD(0)
        for column in range(VECTORS):
            above = builder.bitcast(builder.fcmp_ordered(">", builder.load(sums[row, column]), bar), ir.IntType(LANES))
            mask = builder.or_(mask, builder.shl(builder.zext(above, _WORD), _WORD(column * LANES)))
        mask = builder.and_(mask, builder.load(_at(builder, allowed, _WORD(row))))
        _store_scores(builder, sums, row, scores)
        builder.store(mask, _at(builder, hits, _WORD(row)))
        any_hit = builder.zext(builder.icmp_unsigned("!=", mask, _WORD(0)), _WORD)
        users_with_hits = builder.or_(users_with_hits, builder.shl(any_hit, _WORD(row)))
    return users_with_hits


def _emit_hits_neon(builder: Any, sums: Any, bars: Any, allowed: Any, scores: Any, hits: Any) -> Any:
    """As ``_emit_hits``. A mask of a vector is slow with NEON, so only users with a score above the bar get one.

    The comparisons of all users of the group fill one register: LANES bytes for each user, all ones or all zeros.
    """
    bar = [_in_all_lanes(builder, bars, row) for row in range(GROUP)]
    above = {place: builder.fcmp_ordered(">", builder.load(total), bar[place[0]]) for place, total in sums.items()}
    lanes = [reduce(builder.or_, (above[row, column] for column in range(VECTORS))) for row in range(GROUP)]
    pairs = [_joined(builder, first, second) for first, second in zip(lanes[::2], lanes[1::2], strict=True)]
    halves = [builder.bitcast(builder.sext(pair, ir.VectorType(ir.IntType(8), 2 * LANES)), _WORD) for pair in pairs]
    users_with_hits = _build.alloca_once_value(builder, _WORD(0))
    with builder.if_then(builder.icmp_unsigned("!=", reduce(builder.or_, halves), _WORD(0)), likely=False):
        for row in range(GROUP):
            of_user = builder.and_(halves[row // 2], _WORD((2 ** (8 * LANES) - 1) << (8 * LANES * (row % 2))))
            with builder.if_then(builder.icmp_unsigned("!=", of_user, _WORD(0))):
                mask = _WORD(0)
                for column in range(VECTORS):
                    bits = builder.zext(builder.bitcast(above[row, column], ir.IntType(LANES)), _WORD)
                    mask = builder.or_(mask, builder.shl(bits, _WORD(column * LANES)))
                mask = builder.and_(mask, builder.load(_at(builder, allowed, _WORD(row))))
                builder.store(mask, _at(builder, hits, _WORD(row)))
                _store_scores(builder, sums, row, scores)
                any_hit = builder.zext(builder.icmp_unsigned("!=", mask, _WORD(0)), _WORD)
                known = builder.load(users_with_hits)
                builder.store(builder.or_(known, builder.shl(any_hit, _WORD(row))), users_with_hits)
    return builder.load(users_with_hits)


def _joined(builder: Any, first: Any, second: Any) -> Any:
    """Join two vectors of LANES into one."""
    return builder.shuffle_vector(first, second, ir.VectorType(ir.IntType(32), 2 * LANES)(list(range(2 * LANES))))


def _store_scores(builder: Any, sums: Any, row: int, scores: Any) -> None:
    for column in range(VECTORS):
        total = builder.load(sums[row, column])
        builder.store(total, _vector_at(builder, scores, row * VECTORS + column), align=4)


def _at(builder: Any, base: Any, offset: Any) -> Any:
    return builder.gep(base, [offset])


def _vector_at(builder: Any, base: Any, index: int) -> Any:
    return builder.bitcast(_at(builder, base, _WORD(index * LANES)), _VECTOR.as_pointer())


def _users_in_all_lanes(builder: Any, of_users: Any) -> list[Any]:
    """Return one vector for every user of the group; NEON multiplies by one lane of a register with all of them."""
    if not _NEON:
        return [_in_all_lanes(builder, of_users, row) for row in range(GROUP)]
    users = builder.load(_vector_at(builder, of_users, 0), align=4)
    lanes = ir.VectorType(ir.IntType(32), LANES)
    return [builder.shuffle_vector(users, _VECTOR(ir.Undefined), lanes([row] * LANES)) for row in range(GROUP)]


def _in_all_lanes(builder: Any, base: Any, index: int) -> Any:
    number = builder.load(_at(builder, base, _WORD(index)))
    nothing = _VECTOR(ir.Undefined)
    first_lane = ir.VectorType(ir.IntType(32), LANES)([0] * LANES)
    return builder.shuffle_vector(builder.insert_element(nothing, number, _WORD(0)), nothing, first_lane)


def _bits_type(_context: Any, _number: Any) -> Any:
    """Return the bits of a float32 as an int32."""
    return types.int32(types.float32), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.IntType(32))


def _float_type(_context: Any, _bits: Any) -> Any:
    """Return the float32 with the bits of an int32."""
    return types.float32(types.int32), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.FloatType())


def _lowest_bit_type(_context: Any, _mask: Any) -> Any:
    """Return the number of the lowest set bit; the mask must have one."""
    return types.uint64(types.uint64), lambda _c, builder, _s, args: builder.cttz(args[0], ir.IntType(1)(1))


tile_scores = _new_intrinsic(_scores_type)
score_tile = _new_intrinsic(_tile_type)
bits_of = _new_intrinsic(_bits_type)
float_of = _new_intrinsic(_float_type)
lowest_bit = _new_intrinsic(_lowest_bit_type)
