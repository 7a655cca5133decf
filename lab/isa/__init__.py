"""PTX and SASS: control flow, loops, instruction classes and the mix."""
