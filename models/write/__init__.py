"""Effects to rows, a kind of row in each file, in bulk. `models/write/apply.py` says in which order.

`known` are row numbers of incidents by unique_id, those that were just inserted among them.
"""
