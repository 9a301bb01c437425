"""What the tests of the contract ask for."""

from tests.contract.stock import stock
from tests.web.conftest import app, ask

__all__ = ["app", "ask", "stock"]
