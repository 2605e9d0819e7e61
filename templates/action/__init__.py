from .api import run

__all__ = ["run"]
