"""What stays on the host: data loading, processes, and the draws of Python, numpy and torch generators."""
