"""How the hook server gives effect to what plugins want."""
