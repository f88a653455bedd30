# SPDX-License-Identifier: Apache-2.0
"""As much of an S3 store as exporting needs, in memory. Signatures are not checked. For what a test
does to parts behind the back of the program, and for what only some stores do."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import re
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from s3_proxy import Answer, Fault, Pass, Proxy, Request

BUCKET = "bucket"


@dataclass
class Upload:
    key: str
    parts: dict[int, bytes] = field(default_factory=dict)
    checksum: str = ""
    """What it was begun with, such as SHA256."""


def error(status: int, code: str) -> Answer:
    return Answer(status, [], f"<Error><Code>{code}</Code></Error>".encode())


def document(name: str, inner: str) -> Answer:
    return Answer(200, [("Content-Type", "application/xml")],
                  f'<?xml version="1.0" encoding="UTF-8"?>\n<{name}>{inner}</{name}>'.encode())


def element(name: str, text: object) -> str:
    return f"<{name}>{escape(str(text))}</{name}>"


class MemoryStore:
    """One bucket. Objects and uploads may be looked at and changed while no program runs."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, str]] = {}
        """Bytes and ETags, by key."""
        self.uploads: dict[str, Upload] = {}
        self.page = 1000
        """Parts in a page of a list."""
        self.has_sums = True
        """Whether a part's ETag is its MD5."""
        self.fault: Fault = lambda request, pass_on: pass_on(request)
        self.requests: list[Request] = []
        """All that have been passed on."""
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def begin(self, key: str, parts: dict[int, bytes] | None = None) -> str:
        name = f"upload {next(self._ids)}"
        self.uploads[name] = Upload(key, dict(parts or {}))
        return name

    def etag_of(self, part: bytes) -> str:
        md5 = hashlib.md5(part).hexdigest()
        return md5 if self.has_sums else f"opaque-{md5[:8]}"

    def sent_parts(self) -> list[tuple[str, int]]:
        """Keys and numbers, in the order in which they came."""
        return [(self.key_of(request), int(self.query_of(request)["partNumber"]))
                for request in self.requests if request.is_part]

    def key_of(self, request: Request) -> str:
        path = urllib.parse.unquote(request.path.split("?")[0])
        return path.removeprefix(f"/{BUCKET}").removeprefix("/")

    def query_of(self, request: Request) -> dict[str, str]:
        return dict(urllib.parse.parse_qsl(request.path.partition("?")[2], keep_blank_values=True))

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            query, key = self.query_of(request), self.key_of(request)
            if "uploads" in query:
                return self._new(key) if request.method == "POST" else self._list_uploads(query)
            if "uploadId" in query:
                return self._upload(request, query, key)
            if request.method == "GET" and not key:
                return self._list(query)
            return self._object(request, key)

    def _object(self, request: Request, key: str) -> Answer:
        if request.method == "PUT":
            etag = hashlib.md5(request.body).hexdigest()
            self.objects[key] = request.body, etag
            return Answer(200, [("ETag", f'"{etag}"')])
        if request.method == "DELETE":
            self.objects.pop(key, None)
            return Answer(204)
        if key not in self.objects:
            return error(404, "NoSuchKey")
        body, etag = self.objects[key]
        return Answer(200, [("ETag", f'"{etag}"'), ("Content-Length", str(len(body)))], body)

    def _list(self, query: dict[str, str]) -> Answer:
        return document("ListBucketResult", element("IsTruncated", "false") + "".join(
            f"<Contents>{element('Key', key)}{element('Size', len(body))}"
            f"{element('ETag', etag)}</Contents>"
            for key, (body, etag) in sorted(self.objects.items())
            if key.startswith(query["prefix"])))

    def _new(self, key: str) -> Answer:
        return document("InitiateMultipartUploadResult", element("UploadId", self.begin(key)))

    def _list_uploads(self, query: dict[str, str]) -> Answer:
        return document("ListMultipartUploadsResult", element("IsTruncated", "false") + "".join(
            f"<Upload>{element('Key', upload.key)}{element('UploadId', name)}</Upload>"
            for name, upload in self.uploads.items() if upload.key.startswith(query["prefix"])))

    def _upload(self, request: Request, query: dict[str, str], key: str) -> Answer:
        upload = self.uploads.get(query["uploadId"])
        if upload is None or upload.key != key:
            return error(404, "NoSuchUpload")
        if request.method == "PUT":
            sum_of_body = base64.b64encode(hashlib.md5(request.body).digest()).decode()
            if {name.lower(): value for name, value in request.headers.items()}["content-md5"] != sum_of_body:
                return error(400, "BadDigest")
            upload.parts[int(query["partNumber"])] = request.body
            return Answer(200, [("ETag", f'"{self.etag_of(request.body)}"')])
        if request.method == "GET":
            return self._list_parts(upload, int(query.get("part-number-marker", 0)))
        del self.uploads[query["uploadId"]]
        return Answer(204) if request.method == "DELETE" else self._complete(request, upload)

    def _list_parts(self, upload: Upload, after: int) -> Answer:
        numbers = sorted(number for number in upload.parts if number > after)
        page = numbers[:self.page]
        inner = element("IsTruncated", str(len(numbers) > len(page)).lower())
        if page:
            inner += element("NextPartNumberMarker", page[-1])
        if upload.checksum:
            inner += element("ChecksumAlgorithm", upload.checksum)
        return document("ListPartsResult", inner + "".join(
            f"<Part>{element('PartNumber', number)}{element('Size', len(upload.parts[number]))}"
            f"<ETag>&quot;{self.etag_of(upload.parts[number])}&quot;</ETag></Part>"
            for number in page))

    def _complete(self, request: Request, upload: Upload) -> Answer:
        listed = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>&quot;(.*?)&quot;</ETag>",
                            request.body.decode())
        parts = [upload.parts.get(int(number), b"") for number, _ in listed]
        if [self.etag_of(part) for part in parts] != [etag for _, etag in listed]:
            return error(400, "InvalidPart")
        sums = b"".join(hashlib.md5(part).digest() for part in parts)
        etag = f"{hashlib.md5(sums).hexdigest()}-{len(parts)}"
        self.objects[upload.key] = b"".join(parts), etag
        return document("CompleteMultipartUploadResult",
                        element("Key", upload.key) + element("ETag", f'"{etag}"'))


class Server(Proxy):
    def __init__(self, store: MemoryStore) -> None:
        def fault(request: Request, pass_on: Pass) -> Answer:
            return store.fault(request, pass_on)

        super().__init__("", fault)
        self.store = store

    def pass_on(self, request: Request) -> Answer:
        return self.store.answer(request)


@contextlib.contextmanager
def serving(store: MemoryStore) -> Iterator[dict[str, str]]:
    """@return what names the store to a program, in its environment"""
    server = Server(store)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
               "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
               "AWS_REGION": "us-east-1", "HOME": "/nonexistent"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
