"""The generic runtime manager: it brings pods to what their manifests say, on any runtime that speaks CRI."""
