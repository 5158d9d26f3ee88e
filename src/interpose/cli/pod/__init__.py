"""`interpose pod`: pods from manifests on any CRI runtime."""
