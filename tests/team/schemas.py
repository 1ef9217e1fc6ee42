"""Models of contents, in a module that nothing has allowed yet."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field, PrivateAttr, computed_field


class Document(BaseModel):
    root_path: str = ""
    filename: str = ""
    content: str = ""


class Documents(BaseModel):
    docs: dict[str, Document] = Field(default_factory=dict)


class CodingContext(BaseModel):
    filename: str
    design_doc: Document | None = None
    task_doc: Document | None = None
    due: datetime | None = None


class Outer:
    class Inner(BaseModel):
        text: str


class Remembering(BaseModel):
    text: str = ""
    _seen: int = PrivateAttr(default=0)


class Excluding(BaseModel):
    text: str = ""
    kept: int = Field(default=0, exclude=True)


class Renaming(BaseModel):
    number: int = Field(alias="the number", default=0)

    @computed_field
    def twice(self) -> int:
        return 2 * self.number


class Loose(BaseModel):
    item: object = None
