"""Syntax trees: built from templates, walked, asked, and written as people write them."""
