"""Code that all operations share: resources, fields, errors, access, paging, limits, documentation."""
