# SPDX-License-Identifier: Apache-2.0
"""As much of an S3 store as reading needs: buckets are the directories of a web server, nothing is
signed or checked. For what a web server of the tests can do and no real store does: to keep a
request waiting until a test lets it go."""

from __future__ import annotations

import urllib.parse
from xml.sax.saxutils import escape

from web_server import Request, etag_of


def listing(request: Request) -> bool:
    """A rule of a web server: answers ListObjectsV2 of a bucket."""
    query = urllib.parse.parse_qs(request.query, keep_blank_values=True)
    if request.method != "GET" or query.get("list-type") != ["2"]:
        return False
    bucket = request.path.strip("/")
    root = request.handler.server.told.root / bucket
    prefix = query.get("prefix", [""])[0]
    delimiter = query.get("delimiter", [""])[0]
    objects, folders = [], set()
    for path in sorted(root.rglob("*")):
        key = str(path.relative_to(root))
        if not path.is_file() or not key.startswith(prefix):
            continue
        rest = key[len(prefix):]
        if delimiter and delimiter in rest:
            folders.add(prefix + rest[:rest.index(delimiter) + 1])
            continue
        objects.append(f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-31T12:34:56.000Z</LastModified>"
                       f"<ETag>&quot;{etag_of(path.stat())}&quot;</ETag><Size>{path.stat().st_size}</Size></Contents>")
    prefixes = [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders)]
    body = ('<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
            f"<Name>{escape(bucket)}</Name><IsTruncated>false</IsTruncated>{''.join(objects + prefixes)}"
            "</ListBucketResult>")
    request.handler.answer(200, body.encode(), {"Content-Type": "application/xml"})
    return True
