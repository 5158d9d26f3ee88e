"""The admission webhook: pods get an annotation with the resources that their containers ask for."""
