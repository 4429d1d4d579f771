"""What is known of the input: kinds of values, facts of functions and classes, the script as a whole."""
