"""The relay's side: copies what passes into frames and hands them on; never decodes a message."""
