"""Process the pending alerts of services and routers."""
