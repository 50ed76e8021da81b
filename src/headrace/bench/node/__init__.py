"""`headrace bench node`: all figures of the node engine, with what each must reach."""
