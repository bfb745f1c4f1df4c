"""The engine: requests in, patches and samples out, one step at a time. Knows no family by name."""
