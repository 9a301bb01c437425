"""The first minutes of an operator: `tocsin up` prints a link, which leads the owner to the incidents."""

import os
import pty
import re
import subprocess
import sys
import threading

import pytest
from playwright.sync_api import expect

from tests.support import stores
from tests.support.polling import wait_until
from tests.support.processes import build_environment, find_free_port, is_running, list_descendants
from tests.support.web.site import SIZES

LINK = re.compile(r"http://\S+/sign-in/link/\S+")
PASSWORD = "correct horse battery"


class Terminal:
    """A terminal in which `tocsin up` runs. `text` is what it shows."""

    def __init__(self, home) -> None:
        self.text = ""
        self.port = find_free_port()
        self._mine, its = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tocsin", "up"],
            env=build_environment(home, self.port, TOCSIN_PUBLIC_URL=f"http://localhost:{self.port}"),
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=subprocess.DEVNULL,
        )
        os.close(its)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        # The end of the process is an error of its terminal.
        try:
            while data := os.read(self._mine, 65_536):
                self.text += data.decode()
        except OSError:
            pass

    def find_link(self) -> str:
        found = LINK.search(self.text)
        return found[0] if found else ""

    def close(self) -> None:
        below = list_descendants(self.process.pid)
        self.process.terminate()
        self.process.wait(20)
        wait_until(lambda: not any(is_running(pid) for pid in below))
        self._reader.join()
        os.close(self._mine)


@pytest.fixture
def terminal(tmp_path):
    """A terminal of a new installation."""
    home = tmp_path / "home"
    found = Terminal(home)
    yield found
    found.close()
    stores.drop_store(home)


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport=SIZES["desktop"])
    yield context.new_page()
    context.close()


def test_the_owner_sets_a_password_and_sees_the_incidents(terminal, page):
    link = wait_until(terminal.find_link)
    page.goto(link)
    expect(page.get_by_role("heading", name=re.compile("^Sign in as "))).to_be_visible()
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label(re.compile("^New password")).fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_text("The password is set.")).to_be_visible()
    address = page.locator(".head p").inner_text()
    page.get_by_role("link", name="Incidents").click()
    expect(page.get_by_role("heading", name="Incidents")).to_be_visible()

    # The password works, and the link does not work again.
    page.context.clear_cookies()
    page.goto(link)
    expect(page.get_by_role("heading", name=re.compile("^Sign in as "))).to_have_count(0)
    page.goto(f"http://localhost:{terminal.port}/sign-in/")
    page.locator("#address").fill(address)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Incidents")).to_be_visible()
