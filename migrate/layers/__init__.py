"""The layer table: what each torch layer becomes, as pure data."""
