"""The Spark session: ours, quiet and local, or the user's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from headrace.connect.spark_versions import UNIX_SOCKETS, file_manager, has_unix_sockets

from . import fork_server
from .agreement import check_java_side, check_package, check_session, check_workers
from .alive import alive
from .archive import java_options
from .cluster_secret import SECRET, SETTINGS, secret_of
from .errors import SparkError
from .java import NoJava, find_java, use_java
from .package import is_local, ship
from .pools import FAIR, MODE, pool_settings
from .temporary import folder_of_process

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

STOP_SECONDS = 30.0
ATTEMPTS = 4  # of a task, as Spark's own default is
LOOPBACK = ("spark://127.0.0.1:", "spark://localhost:")

DAEMON = "headrace.spark.daemon"  # the parent of Python workers, with our modules loaded

# Nobody outside of this machine is listened to.
HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

ADAPTIVE = "spark.sql.adaptive.enabled"

# Fixed when Spark starts.
STARTING = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.authenticate.socketTimeout": "60s",
    UNIX_SOCKETS: "true",  # Java and Python meet sooner
}
# What a user's own session may have otherwise, and what follows.
FIXED = {
    "spark.python.daemon.module": (DAEMON, "Python workers take a second longer to start"),
    "spark.log.level": ("OFF", "Spark may write to the log when a job stops or fails"),
    UNIX_SOCKETS: ("true", "a small micro-batch takes longer"),
    "spark.python.authenticate.socketTimeout": (
        "60s",
        "on a machine with much to do, Python workers may be given up too early",
    ),
    MODE: (FAIR, "tasks of important queries at a gate wait for those of others"),
}
# Of a session; ours is a new one of the user's context, so that theirs stays as it is.
RUNNING = {
    ADAPTIVE: "false",  # it plans each stage of each batch anew
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.streaming.metricsEnabled": "false",
}


def open_session(master: str | None, session: Any) -> SparkSession:
    """The user's session, the one that runs already, or a new one; its workers have our code."""
    found = _opened(master, session)
    context = found.sparkContext
    check_java_side(context)
    ship(context)
    if not is_local(context.master or "local"):
        check_workers(context)
    return found


def _opened(master: str | None, session: Any) -> SparkSession:
    from pyspark.sql import SparkSession

    check_package()
    if session is not None:
        check_session(session)
        return session
    running = SparkSession.getActiveSession()
    if running is not None:
        check_session(running)
        used = running.sparkContext.master or "local"
        if master is not None and _cores(master) != _cores(used):
            raise SparkError(
                f"Spark runs already in this process, on {used}, and not on {master}\n"
                "  fix: leave master= out, or stop that session first"
            )
        return running
    check_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    chosen = with_retries(master or "local[*]")
    settings, secret = STARTING | pool_settings(), None
    if is_local(chosen):
        fork_server.begin()  # it loads while Java starts
        settings |= {"spark.python.daemon.module": DAEMON, **HERE}
        if options := java_options():
            settings["spark.driver.defaultJavaOptions"] = options
    else:
        settings |= _of_cluster(chosen)
        secret = secret_of(chosen)
        settings |= {} if secret is None else SETTINGS
    with alive("starting Spark"):
        return _quietly(lambda: _started(chosen, settings, secret))


def _started(master: str, settings: dict[str, str], secret: str | None) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf().setMaster(master).setAppName("headrace").setAll(list(settings.items()))
    SparkContext._ensure_initialized(conf=conf)  # type: ignore[attr-defined]
    builder = SparkSession.builder.master(master).appName("headrace")
    for name, value in settings.items():
        builder = builder.config(name, value)
    if secret is not None:  # Java runs now: what it was started with, all users can see
        builder = builder.config(SECRET, secret)
    return builder.getOrCreate()


def with_retries(master: str) -> str:
    """A local master that tries tasks again which fail, as clusters do by themselves.

    >>> [with_retries(master) for master in ("local", "local[*]", "local[2,1]", "spark://h:7077")]
    ['local[1,4]', 'local[*,4]', 'local[2,1]', 'spark://h:7077']
    """
    cores = re.fullmatch(r"local(?:\[([^,\]]+)\])?", master)
    return f"local[{cores[1] or 1},{ATTEMPTS}]" if cores else master


def _cores(master: str) -> str:
    """A master without how often it tries."""
    return re.sub(r"^(local\[[^,\]]+),\s*\d+\]$", r"\1]", with_retries(master))


def attempts(context: SparkContext) -> int:
    """How often Spark tries a task before it gives up.

    In local mode, that is the second number of the master's name, and 1 where there is none.
    """
    master = context.master or "local"
    if is_local(master):
        named = re.search(r",\s*(\d+)\]$", master)
        return int(named[1]) if named else 1
    return int(context.getConf().get("spark.task.maxFailures") or ATTEMPTS)


def task_cores(context: SparkContext) -> int:
    """How many cores a task has."""
    return int(context.getConf().get("spark.task.cpus") or 1)


def _of_cluster(master: str) -> dict[str, str]:
    """What workers elsewhere must be told."""
    made = {"spark.pyspark.python": sys.executable}
    if "HEADRACE_CACHE" in os.environ:
        made["spark.executorEnv.HEADRACE_CACHE"] = os.path.abspath(os.environ["HEADRACE_CACHE"])
    if master.startswith(LOOPBACK):  # the name of this machine may lead elsewhere
        made |= HERE
    return made


def _quietly(begin: Any) -> Any:
    """Start Java with its messages in a file: it says a lot when it starts, and Python workers of
    Spark talk through it. If it does not start, the end of the file says why.
    """
    path = folder_of_process("headrace-spark-") / "java.log"
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, "wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        return begin()
    except Exception as error:
        said = path.read_text(errors="replace").strip().splitlines()[-8:]
        raise SparkError("\n  ".join([f"Spark did not start: {error}", *said])) from None
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def is_running() -> bool:
    """Does Spark run in this process?"""
    loaded = sys.modules.get("pyspark")  # without it there is none
    return loaded is not None and loaded.SparkContext._active_spark_context is not None


def close_session(wait: float = STOP_SECONDS) -> None:
    """Stop Spark, if it runs in this process, and wait until its Java has ended."""
    if not is_running():
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext._active_spark_context
    gateway = context._gateway
    session = SparkSession.getActiveSession()
    (session or context).stop()
    java = getattr(gateway, "proc", None)
    if gateway is None or java is None:
        return  # Java was there before us
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    java.stdin.close()  # it ends when nobody can write to it any more
    try:
        java.wait(wait)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()


def left_alone(session: SparkSession) -> list[str]:
    """What we would set otherwise and cannot change in a session that the user has started."""
    made, conf = [], session.sparkContext.getConf()
    for name, (ours, meaning) in FIXED.items():
        theirs = conf.get(name)
        if name == UNIX_SOCKETS and not has_unix_sockets():
            continue
        if theirs != ours:
            made.append(f"{name} is {theirs or 'not set'}, not {ours}: {meaning}")
    return made


def own_session(session: SparkSession, shards: int) -> SparkSession:
    """A session with our settings over the same Spark."""
    made = session.newSession()
    for name, value in running_settings(shards).items():
        made.conf.set(name, value)
    return made


def running_settings(shards: int) -> dict[str, str]:
    """Our settings of a session."""
    return {
        **RUNNING,
        "spark.sql.streaming.checkpointFileManagerClass": file_manager(),
        "spark.sql.shuffle.partitions": str(shards),
    }


def check_java() -> None:
    """Java is there, new enough, and where Spark looks; or a SparkError says what to install."""
    try:
        use_java(find_java())
    except NoJava as error:
        raise SparkError(f"Spark needs Java. {error}") from None
