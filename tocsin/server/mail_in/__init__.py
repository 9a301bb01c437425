"""Alerts by mail: what the listener receives by SMTP at KEY@DOMAIN.

- `server`: connections, answers, and their limits (`limits`).
- `message`: a mail becomes the JSON of its alert (`html_text`).
- `acceptance`: this is committed before the answer.
- `certificate`: for STARTTLS.
"""
