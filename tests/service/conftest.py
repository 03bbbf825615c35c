"""What takes long to start is started once: a browser, and a PostgreSQL server, as the campaigns' tests have it."""

import shutil

import pytest

from tests.campaign.conftest import server

__all__ = ["chromium", "server"]


@pytest.fixture(scope="module")
def chromium():
    """Debian's Chromium, driven by Playwright, which keeps an event loop in this thread until it ends."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium on this machine")
    with playwright.sync_playwright() as driver:
        # Chromium has no sandbox for root, as whom containers run tests; it opens nothing but the service under test.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
