__DOCSTRING__

from __future__ import annotations

__IMPORTS__

from . import CLIENT

__DEFINITIONS__

__all__ = __EXPORTS__


__RUN__
