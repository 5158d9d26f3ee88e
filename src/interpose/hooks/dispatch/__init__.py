"""The host side of hooks: finds hook servers in hookserver.d, asks them, and merges what they answer."""
