"""What aggregates keep of many values: bytes in the heap of a store, changed where they lie.

Each is a binary value of a record (its two words): zero words are none yet. Its first word never
changes, so that the words of the value stay true while its bytes change. Who changes one asks
first how many fresh bytes that takes, and then gives a heap that has them.
"""
