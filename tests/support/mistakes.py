"""Check a `UserError` by its code and fields, so that tests don't depend on wording."""

from collections.abc import Callable

from lab.base.errors import UserError


def coded(code: str, **fields: object) -> Callable[[UserError], bool]:
    """Return a check for `pytest.raises`: the error has this code and these fields (`key`, `found`, `line`)."""

    def check(error: UserError) -> bool:
        actual = {
            "key": error.key,
            "found": error.found,
            "line": error.at.line if error.at else None,
        }
        assert (error.code, {name: actual[name] for name in fields}) == (code, fields), str(error)
        return True

    return check
