"""What every operation shares: resources, fields, errors, access, paging, limits, documentation."""
