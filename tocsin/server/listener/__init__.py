"""`tocsin listener`: long connections to providers, each held by one process at a time (a lease).

It also receives mails, without a lease: tocsin/server/mail_in.

- `jobs`: the table of jobs, and which of them the settings need.
- `process`: take the leases and run the jobs.
- `telegram_updates`, `slack_connection`: one file for each job.
"""
