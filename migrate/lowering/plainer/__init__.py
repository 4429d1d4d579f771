"""The input, taken as if it were written plainer: source to source, in torch, before it is lowered or as it is."""
