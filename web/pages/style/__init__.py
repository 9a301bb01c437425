"""The page of components, for those who change pages."""
