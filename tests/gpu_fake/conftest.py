"""Tests of `lab.gpu` that need no GPU. The worker process must be able to import the fake backend."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
