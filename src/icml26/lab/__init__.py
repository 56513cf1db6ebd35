"""Placeholder docstring: filled by the module that owns it."""
