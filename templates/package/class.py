class __NAME__(__BASE__):
    __BODY__
