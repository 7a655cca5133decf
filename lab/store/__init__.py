"""The run directory: one crash-safe record a variant, and the files that go with it.

::

    reports/<experiment>/
        run.sqlite            records and the run's own facts; the only source of the report
        variants/<id>/        kernel.cu, kernel.ptx, kernel.sass, kernel.cubin, build.log, provenance.json
        run.lock              who writes here

A record is written once its variant is finished, in one transaction; whatever ends the process, every
finished record is there afterwards. SQLite rather than a file that grows: it recovers by itself from a write that was
cut short (write-ahead log, synced before a transaction counts), replaces a winner's record in place, and reads one
record of ten thousand without the others. A variant's files are written before its record, `provenance.json` with
the sizes of the others last, so that a record whose files the machine lost with its power is recognised.
"""
