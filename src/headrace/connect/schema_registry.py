"""A registry of schemas, over HTTP: the part of Confluent's interface that its likes have, too."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from headrace.plan.errors import DataError, Unreachable

TIMEOUT = 10.0
CONTENT = "application/vnd.schemaregistry.v1+json"


class Registry:
    """Asks a registry; user and password of its URL go into a header and show nowhere.

    >>> str(Registry("https://ann:secret@registry:8081/"))
    'https://registry:8081'
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            said = repr(url) if parts is None or "@" not in url else "this"
            raise DataError(f"{said} is no URL of a schema registry, as http://host:8081 is one")
        self._url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._headers = {"Accept": CONTENT, "Content-Type": CONTENT}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def __str__(self) -> str:
        return self._url

    def schema(self, number: int) -> Any:
        """The schema with a number."""
        return self._parsed(self._ask(f"/schemas/ids/{number}"), f"schema {number}")

    def newest(self, subject: str) -> Any:
        """The newest schema of a subject."""
        path = f"/subjects/{quote(subject, safe='')}/versions/latest"
        return self._parsed(self._ask(path), f"subject {subject}")

    def register(self, subject: str, schema: Any) -> int:
        """The number of a schema, which is a version of a subject from now on."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found = self._ask(path, {"schema": json.dumps(schema)}).get("id")
        if not isinstance(found, int):
            raise DataError(f"the schema registry at {self} gave no number for {subject}")
        return found

    def _parsed(self, found: Any, what: str) -> Any:
        if found.get("schemaType", "AVRO") != "AVRO":
            raise DataError(f"{what} is {found['schemaType']}, and not Avro")
        try:
            return json.loads(found["schema"])
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{what} of the schema registry at {self} is no schema") from None

    def _ask(self, path: str, told: Any = None) -> Any:
        import urllib.error  # slow to load, and few need it
        import urllib.request

        data = None if told is None else json.dumps(told).encode()
        request = urllib.request.Request(self._url + path, data, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            said = f"the schema registry at {self} refuses {path}: {error.code} {_reason(error)}"
            if error.code >= 500:
                raise Unreachable(said) from None
            raise DataError(said) from None
        except ValueError:
            raise DataError(f"what answers at {self} is no schema registry") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise Unreachable(f"the schema registry at {self} does not answer: {reason}") from None
        if not isinstance(found, dict):
            raise DataError(f"what answers at {self} is no schema registry")
        return found


def _reason(error: Any) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)
