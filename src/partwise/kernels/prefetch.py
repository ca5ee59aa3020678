"""Ask the processor for memory before it is needed, and compare many numbers at once."""

from typing import Any

from partwise.kernels.jit import intrinsic


def _prefetch_builder(typing_context: Any, array: Any, index: Any) -> Any:
    from llvmlite import ir  # type: ignore[import-untyped]  # has no types
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # For reading, into all levels of the cache, as data. A place outside of the array does no harm.
        builder.call(instruction, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


prefetch: Any = intrinsic(_prefetch_builder)
"""``prefetch(array, index)`` fetches ``array[index]`` of a contiguous array of one dimension into the cache."""


AT_ONCE = 32


def _first_of_builder(typing_context: Any, array: Any, index: Any, number: Any) -> Any:
    from llvmlite import ir
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, number = arguments
        one, word = context.get_value_type(signature.args[0].dtype), ir.IntType(32)
        data, many = context.make_array(signature.args[0])(context, builder, array).data, ir.VectorType(one, AT_ONCE)
        some = builder.load(builder.bitcast(builder.gep(data, [index]), many.as_pointer()), align=1)
        none, zeros = ir.Constant(many, ir.Undefined), ir.Constant(ir.VectorType(word, AT_ONCE), [0] * AT_ONCE)
        alike = builder.shuffle_vector(builder.insert_element(none, builder.trunc(number, one), word(0)), none, zeros)
        equal = builder.bitcast(builder.icmp_unsigned("==", some, alike), ir.IntType(AT_ONCE))
        return builder.zext(builder.cttz(equal, ir.IntType(1)(0)), ir.IntType(64))

    return types.int64(array, types.intp, types.intp), codegen


first_of: Any = intrinsic(_first_of_builder)
"""``first_of(array, index, k)``: the place of k in ``array[index : index + AT_ONCE]``, or ``AT_ONCE``.

For a contiguous array of unsigned numbers of at most 32 bits.
"""
