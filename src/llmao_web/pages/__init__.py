"""Pages: the view as HTML."""
