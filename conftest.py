"""Where no engine is named, tests and examples in docstrings run on the thread: it starts at once.

Users get Spark there; what is about Spark names it.
"""

import os

os.environ.setdefault("HEADRACE_ENGINE", "thread")
