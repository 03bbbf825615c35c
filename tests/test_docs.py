"""What the documentation shows runs, and its links lead somewhere."""

import subprocess
import sys
from pathlib import Path


def test_documentation_runs():
    script = Path(__file__).resolve().parent.parent / "docs" / "check.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
