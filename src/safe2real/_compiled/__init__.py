"""All compiled code; nothing else imports numba, and nothing here checks its input."""
