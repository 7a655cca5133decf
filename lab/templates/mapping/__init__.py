"""Mappings: the assignment of tensor elements to threads, in a notation, checked and compiled to an index.

``[2, 4] | [32, 8] => [i0, t0, i1, t1]`` reads: every thread has 2 x 4 local indices, there are 32 x 8 threads, and in
the tensor local dimension 0 varies fastest, then thread dimension 0, and so on; low dimensions stand first everywhere.
`lab.templates.mapping.text` has the whole notation and its shorthands.
"""
