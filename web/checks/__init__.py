"""Checks of an account: schedules, policies, people, rules, alerts. For `tocsin check` and its page."""
