"""Folders for other runtimes: the protocol of their writers, and how a folder is written as a whole."""
