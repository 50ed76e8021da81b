"""Servers to try things with, on this machine only: a real Kafka broker, a real Spark cluster.

headrace dev kafka up
headrace dev kafka status
headrace dev kafka down
headrace cluster up --workers 2
"""
