__NAME__ = __TYPE__
