"""Names of ``typing`` that Python 3.10 lacks, or has in an older form."""

import sys

if sys.version_info >= (3, 11):
    from typing import NotRequired, Required, Self, TypedDict, Unpack, assert_never
else:
    from typing_extensions import NotRequired, Required, Self, TypedDict, Unpack, assert_never

__all__ = ["NotRequired", "Required", "Self", "TypedDict", "Unpack", "assert_never"]
