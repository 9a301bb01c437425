"""Write effects as rows, in bulk; one file for each kind of row. models/write/apply.py has the order.

The argument `incident_rows` maps unique_ids of incidents to row numbers, including incidents that the same
transaction inserted.
"""
