"""A client of podagent's gateway: sandboxes, their files, and their commands. It needs the standard library alone."""

from ._exec import Event, Exit, Part, Result, Started
from .errors import CutError, PodagentError, ProblemError, UnreachableError
from .gateway import Gateway
from .sandbox import Found, Sandbox

__all__ = [
    "CutError",
    "Event",
    "Exit",
    "Found",
    "Gateway",
    "Part",
    "PodagentError",
    "ProblemError",
    "Result",
    "Sandbox",
    "Started",
    "UnreachableError",
]
