"""Take the pictures of the inspector for the documentation, in chromium, of the story that the browser's tests tell.

REME_TEST_BROWSER=1 python docs/make_images.py

It needs fonts for both languages: apt-get install fonts-noto-core fonts-noto-cjk
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", str(ROOT / "tests" / "browser" / "take_pictures.py")]))
