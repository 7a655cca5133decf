"""Run directories: a crash-safe record per variant, its files, and the times of tuning runs.

::

    reports/<experiment>/
        run.sqlite            records and the run's own facts; the only source of the report
        variants/<id>/        kernel.cu, kernel.ptx, kernel.sass, kernel.cubin, build.log, provenance.json
        run.lock              locked by the process that writes here, which run.holder names

A record is written in one transaction once its variant is finished; whatever ends the process, every finished record
is there afterwards. SQLite serves better than a file that grows: it recovers by itself from a write that was cut short
(write-ahead log, synced before a transaction counts), replaces a winner's record in place, and reads one record of ten
thousand without the others. A variant's files are written before its record, and `provenance.json`, which holds the
sizes of the others, is the last of them: so a record whose files were lost in a power failure is recognised.

Modules that other rooms import: `advice`, `codec`, `constant_sources`, `database`, `decoding`, `figures`, `lean`,
`matrix_traffic`, `memo`, `previous`, `published`, `record_files`, `resume`, `role_figures`, `tuned`, `tuning`,
`tuning_model`, `verdicts`, `writer`.
"""
