"""What a model is, said in data, in text and as a page: summaries, differences, reports."""
