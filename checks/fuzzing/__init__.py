"""What ``checks/fuzz.py`` is made of.

mutation      valid inputs -> broken ones
reference     what the core must agree with, written a second time and differently
texts         properties of what reads text
records       properties of what reads JSON
engine        one property in a process of its own, watched
"""
