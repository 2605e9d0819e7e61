# The bases of generated classes with all their names: a name that is missing here stops a cell.
# Their types are left open, and Pydantic is left out: its types would take most of each check.
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

class _Model:
    construct: Any
    copy: Any
    dict: Any
    from_orm: Any
    json: Any
    model_computed_fields: Any
    model_config: Any
    model_construct: Any
    model_copy: Any
    model_dump: Any
    model_dump_json: Any
    model_extra: Any
    model_fields: Any
    model_fields_set: Any
    model_json_schema: Any
    model_parametrized_name: Any
    model_post_init: Any
    model_rebuild: Any
    model_validate: Any
    model_validate_json: Any
    model_validate_strings: Any
    parse_file: Any
    parse_obj: Any
    parse_raw: Any
    schema: Any
    schema_json: Any
    update_forward_refs: Any
    validate: Any

class InputModel(_Model):
    def __iter__(self) -> Any: ...
    from_arguments: Any
    to_arguments: Any

class OutputModel(_Model):
    def __getitem__(self, name: str) -> Any: ...
    def __contains__(self, name: object) -> bool: ...

class ResultModel(OutputModel):
    tool_result: Any

class ResultMapping(ResultModel):
    def __getattr__(self, name: str) -> Any: ...
    def __iter__(self) -> Any: ...
    def __len__(self) -> int: ...

class ResultValue(ResultModel):
    def __getattr__(self, name: str) -> Any: ...

# A `ResultValue` that behaves like a known type: the stubs add that type as a base.
class KnownValue(_Model):
    tool_result: Any

class ResultRoot(_Model, Generic[_T]):
    root: _T
    tool_result: Any

class ToolText(str):
    content: Any
    images: Any
    result: str
    structured: Any
