"""Draws of components, which are dealt to lanes like cards, so that their running sums are computed in parallel."""

from partwise.kernels.arrays import Floats, Numbers
from partwise.kernels.jit import inline_kernel, inner_kernel

# Components are padded with zeros to a multiple of this: how many numbers the processor handles at once.
LANES = 8


@inline_kernel
def running_sums(
    factors: Numbers, f: int, shift: float, shares: Floats, running: Floats
) -> tuple[float, float, float, float, float, float, float, float]:
    """``running[:] = np.cumsum(((shift + factors[f]) * shares).reshape(-1, LANES), axis=0); running[-1]``."""
    # Eight variables instead of an array: waiting for memory would cost more than everything else.
    a = b = c = d = e = g = h = o = 0.0
    for j in range(running.shape[0]):
        k = LANES * j
        a += (shift + factors[f, k]) * shares[k]
        b += (shift + factors[f, k + 1]) * shares[k + 1]
        c += (shift + factors[f, k + 2]) * shares[k + 2]
        d += (shift + factors[f, k + 3]) * shares[k + 3]
        e += (shift + factors[f, k + 4]) * shares[k + 4]
        g += (shift + factors[f, k + 5]) * shares[k + 5]
        h += (shift + factors[f, k + 6]) * shares[k + 6]
        o += (shift + factors[f, k + 7]) * shares[k + 7]
        running[j, 0] = a
        running[j, 1] = b
        running[j, 2] = c
        running[j, 3] = d
        running[j, 4] = e
        running[j, 5] = g
        running[j, 6] = h
        running[j, 7] = o
    return a, b, c, d, e, g, h, o


@inline_kernel
def draw_component(
    factors: Numbers, f: int, shift: float, shares: Floats, uniform: float, n_components: int, running: Floats
) -> int:
    """``weights = (shift + factors[f]) * shares; np.searchsorted(np.cumsum(weights), uniform * sum, "right")``.

    The order of components is that of the lanes: lane by lane, components ``lane``, ``LANES + lane``, ... ``running``
    is room for their running sums.
    """
    n_levels = running.shape[0]
    a, b, c, d, e, g, h, o = running_sums(factors, f, shift, shares, running)
    # Sums of the first lanes are added as a tree, and counted rather than searched. A chain of sums, or a branch that
    # the processor cannot predict, would cost more.
    two = a + b
    three = two + c
    four = two + (c + d)
    five = four + e
    six = four + (e + g)
    seven = six + h
    rest = uniform * (six + (h + o))
    lane = (a <= rest) + (two <= rest) + (three <= rest) + (four <= rest)
    lane += (five <= rest) + (six <= rest) + (seven <= rest)
    before = max(a if a <= rest else 0.0, two if two <= rest else 0.0)
    before = max(before, max(three if three <= rest else 0.0, four if four <= rest else 0.0))
    later = max(five if five <= rest else 0.0, six if six <= rest else 0.0)
    rest -= max(before, max(later, seven if seven <= rest else 0.0))
    level = 0
    for j in range(n_levels):
        level += running[j, lane] <= rest
    if level < n_levels:
        return LANES * level + lane
    return last_positive(factors, f, shift, shares, n_components)  # rounding let the draw slip past


@inner_kernel
def last_positive(factors: Numbers, f: int, shift: float, shares: Floats, n_components: int) -> int:
    """``np.flatnonzero(weights[:n_components])[-1]``, or 0 without any."""
    for k in range(n_components - 1, -1, -1):
        if (shift + factors[f, k]) * shares[k] > 0.0:
            return k
    return 0
