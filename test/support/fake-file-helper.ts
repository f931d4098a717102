/**
 * Owns a file helper for tests: plain operations below the first root, without any policy, and names that
 * make it do what a real one does only when something is wrong.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LemonError } from "../../protocol/errors.ts";
import { serveIsolated } from "../../supervision/isolated-child.ts";

interface Asked {
  readonly method: string;
  readonly request: { readonly path: string; readonly bytes?: Uint8Array };
}

serveIsolated((opening) => {
  const root: string = Object(opening).roots[0].path;
  return (asked) => serve(root, asked as Asked);
});

function serve(root: string, { method, request }: Asked): unknown {
  const path = join(root, request.path);
  if (request.path === "missing") throw new LemonError("not_found");
  if (request.path.endsWith("hang")) {
    // Already done, so that somebody can see that it may have been.
    if (method === "write") writeFileSync(path, request.bytes ?? "");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  }
  if (request.path.endsWith("die")) process.exit(1);
  switch (method) {
    case "list":
      return { path, entries: readdirSync(path).map(stat.bind(null, path)), truncated: false };
    case "stat":
      return { path, ...stat(root, request.path) };
    case "read":
      return { path, bytes: new Uint8Array(readFileSync(path)) };
    case "write":
      writeFileSync(path, request.bytes ?? "");
      return { path, bytesWritten: request.bytes?.length };
    case "mkdir":
      mkdirSync(path);
      return { path };
    case "preview":
      return previewOf(root, request.path);
    case "delete":
      rmSync(path);
      return { path };
    default:
      throw new LemonError("not_implemented");
  }
}

/** `entries-N` has N entries, `bytes-N` candidates of N bytes. */
function previewOf(root: string, name: string): unknown {
  const count = Number(/^entries-(\d+)/.exec(name)?.[1] ?? 1);
  const bytes = Number(/^bytes-(\d+)/.exec(name)?.[1] ?? 1);
  return {
    path: join(root, name),
    stat: stat(root, name),
    childCount: 0,
    childrenDigest: "",
    candidateCount: count,
    candidates: new Uint8Array(bytes),
  };
}

function stat(folder: string, name: string): object {
  const found = statSync(join(folder, name), { throwIfNoEntry: false });
  return {
    name,
    type: found?.isDirectory() ? "directory" : "regular",
    size: found?.size ?? 0,
    mtimeMs: Math.trunc(found?.mtimeMs ?? 0),
    mode: found?.mode ?? 0,
    mime: "application/octet-stream",
    readable: true,
    writable: true,
  };
}
