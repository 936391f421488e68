"""The JSON API, `/api/v1`: the same data as the pages, for machines."""
