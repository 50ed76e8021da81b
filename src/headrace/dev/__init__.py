"""Servers to try things with, on this machine only: a real Kafka broker.

headrace dev kafka up
headrace dev kafka status
headrace dev kafka down
"""
