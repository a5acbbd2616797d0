"""What `refold.text.redact` looks for, one module for each way a secret is recognised."""
