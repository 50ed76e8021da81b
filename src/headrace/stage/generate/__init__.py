"""Python source made from a plan: the text of kernels, before Numba compiles it."""
