"""Checks that call the real frameworks; each in an environment of its own."""
