"""Value types of the domain: frozen, without a wire format, known to every layer above."""
