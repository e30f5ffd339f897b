"""Files of models: written atomically, with their weights inside or beside them, and read."""
