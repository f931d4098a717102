/** Examples of the methods of `protocol/methods/files.ts`: files on nodes. */
import type { FILE_METHODS } from "../../../protocol/methods/files.ts";
import { atMs, type ExamplesOf, nodeId } from "./cast.ts";

const file = {
  type: "regular",
  size: 11,
  mtimeMs: atMs + 123,
  mode: 33188,
  mime: "text/plain",
  readable: true,
  writable: true,
} as const;

export const FILE_EXAMPLES: ExamplesOf<typeof FILE_METHODS> = {
  "node.fs.delete": {
    params: {
      nodeId,
      path: "results/note.txt",
      confirm: "results/note.txt",
      confirmationToken: "VG9rZW4gb2YgYSBwcmV2aWV3IG9mIGEgZGVsZXRpb24",
    },
    result: { path: "/srv/project/results/note.txt", deleted: true },
  },
  "node.fs.delete.preview": {
    params: { nodeId, path: "results/note.txt" },
    result: {
      path: "/srv/project/results/note.txt",
      stat: file,
      childCount: 0,
      childrenDigest: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU",
      candidateCount: 1,
      confirmationToken: "VG9rZW4gb2YgYSBwcmV2aWV3IG9mIGEgZGVsZXRpb24",
      expiresAtMs: atMs + 300_000,
    },
  },
  "node.fs.list": {
    params: { nodeId, path: "results" },
    result: {
      path: "/srv/project/results",
      entries: [{ name: "note.txt", ...file }],
      limit: 500,
      truncated: false,
    },
  },
  "node.fs.mkdir": {
    params: { nodeId, path: "results/old" },
    result: { path: "/srv/project/results/old", created: true },
  },
  "node.fs.move": {
    params: {
      nodeId,
      path: "results/note.txt",
      destination: "results/old/note.txt",
      expectedModifiedAtMs: file.mtimeMs,
    },
    result: {
      path: "/srv/project/results/note.txt",
      destination: "/srv/project/results/old/note.txt",
      moved: true,
    },
  },
  "node.fs.read": {
    params: { nodeId, path: "results/note.txt", offset: 6, length: 6 },
    result: {
      path: "/srv/project/results/note.txt",
      dataBase64: "d29ybGQ=",
      offset: 6,
      length: 5,
      size: 11,
      mime: "text/plain",
      eof: true,
    },
  },
  "node.fs.stat": {
    params: { nodeId, path: "results/note.txt" },
    result: { path: "/srv/project/results/note.txt", ...file },
  },
  "node.fs.write": {
    params: {
      nodeId,
      path: "results/note.txt",
      dataBase64: "SGVsbG8g",
      mkdirs: true,
      expectedModifiedAtMs: 0,
    },
    result: {
      path: "/srv/project/results/note.txt",
      offset: 0,
      bytesWritten: 6,
      size: 6,
      mtimeMs: file.mtimeMs,
    },
  },
};
