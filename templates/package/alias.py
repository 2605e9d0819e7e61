__NAME__ = TypeAliasType(__NAME_TEXT__, __TYPE_TEXT__)
