"""What people look at: values in, text out. Pure."""
