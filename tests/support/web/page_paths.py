"""The paths of all pages of signed-in people, with the name of the screenshot of each."""

# `{trace_id}` and `{schedule_id}` are ids of the data of a test.
PAGES = {
    "incidents": "/",
    "incident": "/incidents/1/",
    "new-incident": "/incidents/new/",
    "postmortem": "/incidents/1/postmortem/",
    "why": "/why/",
    "trace": "/why/{trace_id}/",
    "simulation": "/why/simulate/",
    "on-call": "/on-call/",
    "schedule": "/on-call/{schedule_id}/",
    "schedule-month": "/on-call/{schedule_id}/?view=month",
    "figures": "/figures/",
    "mine": "/mine/",
    "check": "/check/",
    "style": "/style/",
}
# Pages without a screenshot: of the sign-in, of the session, and those that say that something is missing.
OTHERS = {
    "/me/sign-in/": 200,
    "/me/tokens/": 200,
    "/audit/": 200,
    "/changes/": 200,
    "/incidents/999/": 404,
    "/no-such-page/": 404,
    "/why/?trace_id=x": 400,
}
