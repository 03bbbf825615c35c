"""Arithmetic on four numbers at once: the values of four policies that are found in one pass over the rows.

numba knows no vectors, and a compiler that is given four sums side by side does not make one of them. So a type for four
numbers is declared here, and the few things that a sweep does with it are written as instructions. They round alike in
every lane, so that a policy's values do not depend on which others are found beside it.

A quantity of V values (the reward's and the constraints') is a tuple of V such `Four`s; V is known when code is compiled.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 4
_DOUBLE, _WORD, _INDEX = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_FUSED = ("contract",)  # one rounding for a product and its sum, where the processor has an instruction for both


class Four(types.Type):
    """Four float64, one for each policy."""

    def __init__(self) -> None:
        super().__init__(name="Four")


four = Four()


@register_model(Four)
class FourModel(models.PrimitiveModel):
    """A value is one vector register."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, _VECTOR)


def _splat(builder, number):
    single = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(_INDEX, 0))
    everywhere = ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES)
    return builder.shuffle_vector(single, ir.Constant(_VECTOR, ir.Undefined), everywhere)


def _data(context, builder, kind, array):
    if kind.layout != "C":  # addresses are computed here: another order in memory would be read as if it were this one
        raise TypeError(f"an array of a sweep lies in memory in another order ({kind}); give np.ascontiguousarray of it")
    return context.make_array(kind)(context, builder, array).data


def _place(builder, data, state, size, part):
    """Address of part `part` of `size` of a state's values."""
    at = builder.add(builder.mul(state, ir.Constant(_WORD, size * LANES)), ir.Constant(_WORD, part * LANES))
    return builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer())


def _parts(builder, quantity, size):
    return [builder.extract_value(quantity, k) for k in range(size)]


@intrinsic
def expected(typing_context, like, reward, utilities, at, rewards, stride, first, end, probability, successor, later):
    """Return a row's reward and utilities plus the expectation of the values one step `later`, [S, V, LANES] flat.

    reward[rewards] (k = 0) or utilities[at + (k - 1) * stride], both flat, plus the sum over its stored transitions
    i = first .. end - 1 of probability[i] * later[successor[i], k]. `like` is any tuple of V.
    """
    size = len(like)
    signature = types.UniTuple(four, size)(
        like, reward, utilities, at, rewards, stride, first, end, probability, successor, later
    )

    def generate(context, builder, sig, args):
        _, _, _, at, rewards, stride, first, end = args[:8]
        r_data, u_data, p_data, t_data, later_data = (
            _data(context, builder, sig.args[k], args[k]) for k in (1, 2, 8, 9, 10)
        )
        begun = [_splat(builder, builder.load(builder.gep(r_data, [rewards])))]
        for _ in range(1, size):
            begun.append(_splat(builder, builder.load(builder.gep(u_data, [at]))))
            at = builder.add(at, stride)
        before = builder.basic_block
        loop, after = builder.append_basic_block("row"), builder.append_basic_block("row.end")
        builder.cbranch(builder.icmp_unsigned("<", first, end), loop, after)
        builder.position_at_end(loop)
        i = builder.phi(_WORD)
        i.add_incoming(first, before)
        totals = [builder.phi(_VECTOR) for _ in range(size)]
        p = _splat(builder, builder.load(builder.gep(p_data, [i])))
        t = builder.zext(builder.load(builder.gep(t_data, [i])), _WORD)
        summed = []
        for k in range(size):
            totals[k].add_incoming(begun[k], before)
            value = builder.load(_place(builder, later_data, t, size, k), align=8)
            product = builder.fmul(p, value, flags=_FUSED)
            summed.append(builder.fadd(totals[k], product, flags=_FUSED))
            totals[k].add_incoming(summed[k], loop)
        following = builder.add(i, ir.Constant(_WORD, 1))
        i.add_incoming(following, loop)
        builder.cbranch(builder.icmp_unsigned("<", following, end), loop, after)
        builder.position_at_end(after)
        found = []
        for k in range(size):
            total = builder.phi(_VECTOR)
            total.add_incoming(begun[k], before)
            total.add_incoming(summed[k], loop)
            found.append(total)
        return cgutils.pack_array(builder, found)

    return signature, generate


@intrinsic
def prefetch(typing_context, like, values, state):
    """Prefetch a state's values, which are needed soon and are out of cache when there are many states."""
    size = len(like)

    def generate(context, builder, sig, args):
        data = _data(context, builder, sig.args[1], args[1])
        address = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [address, _INDEX, _INDEX, _INDEX])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        for k in range(0, size, 2):  # a line of the cache is two vectors
            place = builder.bitcast(_place(builder, data, args[2], size, k), address)
            builder.call(function, [place, *(ir.Constant(_INDEX, n) for n in (0, 3, 1))])  # to read, often, data
        return context.get_dummy_value()

    return types.void(like, values, state), generate


@intrinsic
def added(typing_context, one, other):
    """The sum of two quantities."""
    size = len(one)

    def generate(context, builder, sig, args):
        pairs = zip(_parts(builder, args[0], size), _parts(builder, args[1], size), strict=True)
        return cgutils.pack_array(builder, [builder.fadd(x, y) for x, y in pairs])

    return types.UniTuple(four, size)(one, other), generate


@intrinsic
def scaled(typing_context, quantity, factor, divisor):
    """Multiply a quantity by a number and divide it by another."""
    size = len(quantity)

    def generate(context, builder, sig, args):
        factor, divisor = _splat(builder, args[1]), _splat(builder, args[2])
        parts = [builder.fdiv(builder.fmul(part, factor), divisor) for part in _parts(builder, args[0], size)]
        return cgutils.pack_array(builder, parts)

    return types.UniTuple(four, size)(quantity, types.float64, types.float64), generate


@intrinsic
def load(typing_context, like, values, state):
    """Load the quantity of a state from `values` [S, V, LANES], flat; `like` is any tuple of V."""
    size = len(like)

    def generate(context, builder, sig, args):
        data = _data(context, builder, sig.args[1], args[1])
        found = [builder.load(_place(builder, data, args[2], size, k), align=8) for k in range(size)]
        return cgutils.pack_array(builder, found)

    return types.UniTuple(four, size)(like, values, state), generate


@intrinsic
def store(typing_context, quantity, values, state):
    """Store the quantity of a state."""
    size = len(quantity)

    def generate(context, builder, sig, args):
        data = _data(context, builder, sig.args[1], args[1])
        for k, part in enumerate(_parts(builder, args[0], size)):
            builder.store(part, _place(builder, data, args[2], size, k), align=8)
        return context.get_dummy_value()

    return types.void(quantity, values, state), generate


@intrinsic
def splat(typing_context, number):
    """One number in every lane."""

    def generate(context, builder, sig, args):
        return _splat(builder, args[0])

    return four(types.float64), generate


@intrinsic
def lane(typing_context, numbers, which):
    """One of the four, as a float."""

    def generate(context, builder, sig, args):
        return builder.extract_element(args[0], builder.trunc(args[1], _INDEX))

    return types.float64(numbers, types.int64), generate


def _weighed(builder, factors, parts):
    total = builder.fmul(factors[0], parts[0])
    for factor, part in zip(factors[1:], parts[1:], strict=True):
        total = builder.fadd(total, builder.fmul(factor, part))
    return total


@intrinsic
def choose(typing_context, weights, totals, name, best, choice, chosen):
    """Return (weights . totals, name, totals) in lanes where weights . totals > best, else (best, choice, chosen)."""
    size = len(weights)
    quantity = types.UniTuple(four, size)

    def generate(context, builder, sig, args):
        factors, offered = _parts(builder, args[0], size), _parts(builder, args[1], size)
        weighted = _weighed(builder, factors, offered)
        better = builder.fcmp_ordered(">", weighted, args[3])
        held = zip(offered, _parts(builder, args[5], size), strict=True)
        return context.make_tuple(
            builder,
            sig.return_type,
            [
                builder.select(better, weighted, args[3]),
                builder.select(better, args[2], args[4]),
                cgutils.pack_array(builder, [builder.select(better, x, y) for x, y in held]),
            ],
        )

    return types.Tuple((four, four, quantity))(weights, totals, four, four, four, quantity), generate


@intrinsic
def weighed(typing_context, weights, totals):
    """The sum of weights[k] * totals[k]."""
    size = len(weights)

    def generate(context, builder, sig, args):
        return _weighed(builder, _parts(builder, args[0], size), _parts(builder, args[1], size))

    return four(weights, totals), generate
