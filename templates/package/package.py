__DOCSTRING__

from typing import TYPE_CHECKING

from ipybox_runtime import ToolRunner

CLIENT = ToolRunner(__SERVER_NAME__)

if TYPE_CHECKING:
    __NAMES__
else:
    from ipybox_runtime.packages import attributes as _attributes

    __getattr__, __dir__ = _attributes(__name__, __path__, CLIENT)
