"""The version of this package, which records carry."""

VERSION = "0.1.0"
