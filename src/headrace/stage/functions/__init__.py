"""User functions: checked while a pipeline is built (`checking`, with all of Numba), then compiled
into kernels or interpreted. A pipeline without any loads only `state`."""
