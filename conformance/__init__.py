"""What a CRI runtime has to do, point by point: a table, and for each point a function that tries it over gRPC."""
