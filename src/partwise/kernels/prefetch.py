"""Ask the processor for memory before it is needed."""

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
