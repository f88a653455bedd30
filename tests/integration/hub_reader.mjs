// SPDX-License-Identifier: Apache-2.0
// Reads a directory with model.safetensors.index.json as the package @huggingface/hub does for
// model hubs, and prints name, dtype, shape and the SHA-256 of the bytes of each tensor as JSON.
//
//   node hub_reader.mjs NODE_MODULES DIRECTORY
import { createHash } from "node:crypto";
import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, directory] = process.argv.slice(2);
const { parseSafetensorsMetadata } = createRequire(join(modules, "x"))("@huggingface/hub");

function range(path, begin, end) {
  const file = openSync(path, "r");
  try {
    const size = fstatSync(file).size;
    const buffer = Buffer.alloc(Math.min(end, size) - begin);
    readSync(file, buffer, 0, buffer.length, begin);
    return { buffer, size };
  } finally {
    closeSync(file);
  }
}

// In place of the network: the hub's addresses end in the file's name.
async function fetchFile(url, options = {}) {
  const path = join(directory, new URL(url).pathname.split("/").pop());
  if (!existsSync(path)) return new Response("Entry not found", { status: 404, headers: { "x-error-code": "EntryNotFound" } });
  const wanted = /bytes=(\d+)-(\d+)/.exec(new Headers(options.headers).get("range") ?? "");
  const [begin, end] = wanted ? [Number(wanted[1]), Number(wanted[2]) + 1] : [0, Infinity];
  const { buffer, size } = range(path, begin, end);
  return new Response(options.method === "HEAD" ? null : buffer, {
    status: wanted ? 206 : 200,
    headers: {
      "content-length": String(buffer.length),
      "content-range": `bytes ${begin}-${begin + buffer.length - 1}/${size}`,
      etag: '"x"',
    },
  });
}

const parsed = await parseSafetensorsMetadata({ repo: "some/model", fetch: fetchFile });
const headers = parsed.sharded ? parsed.headers : { "model.safetensors": parsed.header };
const tensors = {};
for (const [file, header] of Object.entries(headers)) {
  const path = join(directory, file);
  const data = 8 + Number(range(path, 0, 8).buffer.readBigUInt64LE());
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [begin, end] = entry.data_offsets;
    const hash = createHash("sha256").update(range(path, data + begin, data + end).buffer);
    tensors[name] = { dtype: entry.dtype, shape: entry.shape, sha256: hash.digest("hex") };
  }
}
console.log(JSON.stringify(tensors));
