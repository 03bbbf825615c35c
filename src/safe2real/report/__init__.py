"""Pages, figures and files for people."""
