"""What is said about a conversion, and how: which findings are asked for, the formats, the page, the survey."""
