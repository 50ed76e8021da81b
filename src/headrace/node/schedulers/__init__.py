"""Schedulers: who runs next. Each is a set of compiled hooks behind one pointer (`hooks`)."""
