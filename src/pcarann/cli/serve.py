"""The command that lets others call models: serve."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import click

from pcarann.cli.options import device_option, duration
from pcarann.cli.output import errors

__all__ = ["serve"]

_TOKEN = "PCARANN_TOKEN"


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind to: this machine alone.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help=f"File with a token that callers have to send as `Authorization: Bearer TOKEN`; or set {_TOKEN}.",
)
@click.option("--allow-host", multiple=True, help="Further name that callers know the server by; again for several.")
@click.option("--max-body", default="64MB", show_default=True, help="Largest request.")
@click.option("--max-requests", default=256, show_default=True, type=click.IntRange(1), help="At a time.")
@click.option("--timeout", default="60s", show_default=True, callback=duration, help="Longest time for one request.")
@click.option("--max-steps", type=click.IntRange(1), help="Of a roll-out.  [default: 100 times those of its fit]")
@click.option("--limit", help="Memory that model files may take beyond what they hold, such as 2GB.  [default: 256MB]")
@click.option("--prepare", help="Keep hidden weights in so much memory, such as 1GB: small calls get faster.")
@click.option("--umbridge", is_flag=True, help="Speak UM-Bridge too, for tools of uncertainty quantification.")
@device_option
def serve(models: tuple[Path, ...], host: str, port: int, **options: Any) -> None:
    """Let others call MODELS over HTTP, each by the name of its file, by the Open Inference Protocol (KServe, Triton).

    At the address itself stands a page on which they are explored.

    A file that changes is read again while the server runs. Ctrl+C, or SIGTERM, ends it when all that is being asked is
    answered.
    """
    try:
        from pcarann.explorer.site import explorer
        from pcarann.serving.app import application
        from pcarann.serving.guards import LOCAL
        from pcarann.serving.running import address, bound, run
        from pcarann.serving.umbridge import UMBRIDGE
    except ImportError as error:
        raise ImportError(f"serve needs a package that is missing: pip install 'pcarann[serve]' ({error}).") from error

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # which warns of clients who went away
    limits, token = _limits(options), _token(options["token_file"])
    local = host.lower() in LOCAL
    named = {name.lower() for name in options["allow_host"]}
    hosts = {*LOCAL, *named} if local else {host.lower(), *named} if named else None
    more = [explorer(), *([UMBRIDGE] if options["umbridge"] else [])]
    opened = _opened_by(options)
    app = application(models, limits=limits, token=token, hosts=hosts, additions=more, open_model=opened)
    if not local and token is None:
        errors.print(
            f"[yellow]Warning: {host} may be reached from elsewhere, and nobody is asked for a token: see --token-file."
            "[/yellow]"
        )
    with bound(host, port) as listener:
        names = ", ".join(path.stem for path in models)
        run(app, listener, limits, lambda: click.echo(f"Serving {names} at {address(listener)} (stop with Ctrl+C)"))


def _limits(options: dict[str, Any]) -> Any:
    from pcarann.serving.limits import Limits
    from pcarann.validation import check_memory

    body = check_memory(options["max_body"])
    whole = Limits()
    return Limits(
        body=body,
        json=min(body, whole.json),
        memory=max(whole.memory, 4 * body),
        requests=options["max_requests"],
        seconds=options["timeout"],
        steps=options["max_steps"],
    )


def _token(file: Path | None) -> str | None:
    """The token of a file, or of the environment; None where there is none."""
    if file is None:
        token, source = os.environ.get(_TOKEN), _TOKEN
        if token is None:
            return None
    else:
        token, source = file.read_text(encoding="utf-8"), str(file)
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"{source} must hold one word of letters and digits, the token.")
    return token


def _opened_by(options: dict[str, Any]) -> Any:
    from pcarann.loading import load

    limit = {} if options["limit"] is None else {"limit": options["limit"]}

    def opened(path: Path) -> Any:
        model = load(path, options["device"], **limit)
        return model if options["prepare"] is None else model.prepare(options["prepare"])

    return opened
