"""PTX and SASS: readers, control flow, loops, instruction classes and the mix. Useful alone."""
