"""`llmao hash-password`: what stands in `auth.admins` in the place of a password.

Rule of this file: the password is read twice without being shown, and kept nowhere.
"""

import json
import sys

import click

from .common import json_option

SHORTEST = 12


@click.command("hash-password")
@json_option
def hash_password(as_json: bool) -> None:
    """Ask for a password twice and print its argon2 hash for auth.admins.

    In a pipe, the password is the first line of standard input.
    """
    from llmao_web.auth.passwords import LONGEST_PASSWORD, hashed

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not SHORTEST <= len(password) <= LONGEST_PASSWORD:
        raise click.UsageError(f"A password has {SHORTEST} to {LONGEST_PASSWORD} characters.")
    text = hashed(password)
    click.echo(json.dumps({"hash": text}) if as_json else text)
