"""LoRA adapters: matrices of low rank, found in a model, made inputs of it, or merged into its weights."""
