from tests.loopback import loopback, loopback_server

__all__ = ["loopback", "loopback_server"]
