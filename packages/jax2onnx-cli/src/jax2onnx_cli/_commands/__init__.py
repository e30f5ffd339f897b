"""The commands, one module each: a click command `command` whose function returns a `Result`."""
