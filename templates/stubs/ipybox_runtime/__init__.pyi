# For the check of cells only, and so without what it says nothing of.
from typing import Any

def __getattr__(name: str) -> Any: ...
