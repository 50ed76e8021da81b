"""What tests of connectors share."""

from tests.broker import broker

__all__ = ["broker"]  # a fixture, once for all modules
