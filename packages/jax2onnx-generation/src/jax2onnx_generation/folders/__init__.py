"""Folders for other runtimes: `FolderWriter`, the protocol, and writing a folder as a whole."""
