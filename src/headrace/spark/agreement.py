"""All sides of a job have the same Spark, or it does not begin.

The sides are the package that the driver has imported, the Spark that its Java runs, and the Spark
and the Python of the workers.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from headrace.connect.spark_versions import INSTALL, NEWEST, OLDEST, installed, parsed

from .errors import SparkError

if TYPE_CHECKING:
    from pyspark import SparkContext

_agreed: WeakSet[Any] = WeakSet()  # contexts whose workers were asked


def check_package() -> None:
    """The package must be one that headrace knows."""
    import pyspark

    if not OLDEST <= installed() <= NEWEST:
        known = " to ".join(".".join(map(str, version)) for version in (OLDEST, NEWEST))
        raise SparkError(
            f"PySpark {pyspark.__version__} is installed, and headrace knows {known}\n"
            f"  fix: {INSTALL}, in the version of your cluster"
        )


def check_session(session: Any) -> None:
    """A session of Spark Connect is refused: it has no Java beside us to plan and commit with."""
    if not hasattr(session, "_jsparkSession"):
        raise SparkError(
            "the session is one of Spark Connect, which runs the driver on another machine: the "
            "plan, the commits of sinks and the checkpoint need Spark's driver in this process\n"
            '  fix: without SPARK_REMOTE, give master="spark://host:7077", or a session of '
            "SparkSession.builder.master(...); or run the program where the server runs"
        )


def check_java_side(context: SparkContext) -> None:
    """The Spark that Java runs must be that of the package: SPARK_HOME may name another one."""
    import pyspark

    if parsed(context.version) != installed():
        raise SparkError(
            f"PySpark {pyspark.__version__} talks to Spark {context.version}: both must be of one "
            f"version\n  fix: {_install_like(context.version)}, or let SPARK_HOME name a Spark of "
            "the version of the package"
        )


def check_workers(context: SparkContext) -> None:
    """The workers of a cluster must have the driver's versions of Spark and of Python.

    They are asked once, by tasks of a job of their own.
    """
    if context in _agreed:
        return
    import pyspark

    def tell(rows: Any) -> Any:  # travels by value: what it runs on may be of any version
        import platform

        import pyspark

        yield pyspark.__version__, platform.python_version()

    here = parsed(pyspark.__version__), platform.python_version_tuple()[:2]
    try:
        slots = max(1, context.defaultParallelism)
        told = set(context.parallelize(range(slots), slots).mapPartitions(tell).collect())
    except Exception as error:
        raise SparkError(_unlike(str(error))) from None
    for spark, python in sorted(told):
        if (parsed(spark), tuple(python.split(".")[:2])) != here:
            raise SparkError(
                f"the cluster has Spark {spark} and Python {python}, the driver PySpark "
                f"{pyspark.__version__} and Python {platform.python_version()}: they must be of "
                f"the same version\n  fix: {_install_like(spark)} in a Python "
                f"{'.'.join(python.split('.')[:2])} for the driver"
            )
    _agreed.add(context)


def _install_like(spark: str) -> str:
    """How to get the version of a cluster.

    >>> _install_like("4.1.2")
    'pip install "pyspark==4.1.*"'
    """
    return f'pip install "pyspark=={".".join(map(str, parsed(spark)))}.*"'


def _unlike(text: str) -> str:
    import pyspark

    lines = [line.strip() for line in text.splitlines() if "rror" in line or "xception" in line]
    return (
        f"the workers of the cluster do not run what PySpark {pyspark.__version__} (Python "
        f"{platform.python_version()}) sends them: {(lines or [text])[0][:300]}\n  fix: use the "
        "cluster's versions of PySpark and Python for the driver, too"
    )
