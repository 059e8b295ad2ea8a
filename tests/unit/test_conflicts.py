"""A change that meets a conflict is decided again, a limited number of times."""

from __future__ import annotations

import pytest

from reme_core.errors import ConflictError, InputError
from reme_core.store.change import ATTEMPTS, retry_conflicts


class Change:
    """Meets conflicts, and then an error or none."""

    def __init__(self, conflicts: int, error: Exception | None = None) -> None:
        self.attempts: list[int] = []
        self.conflicts = conflicts
        self.error = error

    async def __call__(self, attempt: int) -> str:
        self.attempts.append(attempt)
        if attempt < self.conflicts:
            raise ConflictError(f"conflict {attempt}")
        if self.error is not None:
            raise self.error
        return "done"


@pytest.mark.parametrize("conflicts", [0, 1, ATTEMPTS - 1])
async def test_it_is_decided_again_until_nobody_was_faster(conflicts: int) -> None:
    change = Change(conflicts)
    assert await retry_conflicts(change) == "done"
    assert change.attempts == list(range(conflicts + 1))


async def test_the_last_conflict_is_raised() -> None:
    change = Change(conflicts=99)
    with pytest.raises(ConflictError, match="conflict 2"):
        await retry_conflicts(change, 3)
    assert change.attempts == [0, 1, 2]


async def test_any_other_error_is_raised_at_once() -> None:
    change = Change(conflicts=1, error=InputError("wrong"))
    with pytest.raises(InputError, match="wrong"):
        await retry_conflicts(change)
    assert change.attempts == [0, 1]
