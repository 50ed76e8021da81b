"""Schedulers: who runs next. Each is three compiled hooks behind swappable addresses (`hooks`)."""
