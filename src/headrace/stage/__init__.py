"""A piece of the plan, compiled: it runs on the thread that calls, and knows no engine."""
