"""What holds of the registries as a whole."""
