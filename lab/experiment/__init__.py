"""An experiment file: read, validated, expanded to its variants."""
